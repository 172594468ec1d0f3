package cli_test

import (
	"os"
	"strings"
	"testing"

	"github.com/settlemq/settle/drill"
	"github.com/settlemq/settle/internal/services"
)

func TestADemoOnThreeNodesOfKafkaThatAreBrokenProvesTheSame(t *testing.T) {
	breakNodes(t, "kafka3")
}

func TestADemoOnThreeNodesOfRabbitMQThatAreBrokenProvesTheSame(t *testing.T) {
	breakNodes(t, "rabbitmq3")
}

func TestADemoOnThreeNodesOfNATSThatAreBrokenProvesTheSame(t *testing.T) {
	breakNodes(t, "nats3")
}

// breakNodes has a demo kill, end and pause the nodes of a cluster of the test's
// own, and some other faults between.
func breakNodes(t *testing.T, cluster string) {
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("a demo that breaks three nodes takes minutes: set SETTLE_TEST_ALL=1")
	}
	if name := strings.TrimSuffix(cluster, "3"); name != "nats" { // that one is built from this checkout
		services.URL(t, "SETTLE_TEST_"+strings.ToUpper(name), name) // where that is missing, so is what the cluster needs
	}
	c := services.UpCluster(t, cluster)
	code, out, errs := output(t, "demo", "--broker", c.URL, "--nodes", c.Command, "--orders", "200", "--seed", "2", "--json", "--timeout", "15m",
		"--faults", "broker-node-kill,leader-switch,broker-pause,consumer-kill,relay-kill,lost-ack")
	r := proofOf(t, code, out, errs)
	if r.Orders.Accepted != 200 || r.Orders.Completed+r.Orders.Cancelled != 200 || r.Orders.Completed < 100 {
		t.Errorf("orders %+v", r.Orders)
	}
	for _, f := range r.Faults {
		if f.Times != 2 {
			t.Errorf("%s happened %d times", f.Name, f.Times)
		}
	}
	last := 0.0
	for _, m := range r.Marks {
		if m.Name == drill.FaultBrokerNodeKill || m.Name == drill.FaultLeaderSwitch || m.Name == drill.FaultBrokerPause {
			if m.At < last {
				t.Errorf("%s began at %v s, and the one before it was over at %v s", m.Name, m.At, last)
			}
			last = m.Until
		}
	}
	t.Logf("%.0f s, %+v, marks %+v", r.Duration, r.Events, r.Marks)
}
