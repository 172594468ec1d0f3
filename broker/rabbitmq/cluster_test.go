package rabbitmq_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/settlemq/settle/broker/brokertest"
	"github.com/settlemq/settle/internal/services"
)

// cluster is three nodes of the test's own.
type cluster struct {
	t   testing.TB
	env []string
	at  string
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("only with SETTLE_TEST_ALL=1: it starts three nodes")
	}
	services.URL(t, "SETTLE_TEST_RABBITMQ", "rabbitmq")
	c := &cluster{t: t, env: append(os.Environ(), "SETTLE_SERVICES_DIR="+t.TempDir(), "SETTLE_RABBITMQ3_PORT="+freeRange(t))}
	t.Cleanup(func() { c.run("down") })
	_, c.at, _ = strings.Cut(strings.TrimSpace(c.run("up", "rabbitmq3")), " ")
	return c
}

// freeRange returns a port behind which some more may be free.
func freeRange(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func (c *cluster) run(args ...string) string {
	c.t.Helper()
	cmd := exec.Command(filepath.Join("..", "..", "scripts", "services"), args...)
	cmd.Env = c.env
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		c.t.Errorf("scripts/services %v: %v\n%s", args, err, said.String())
	}
	return string(out)
}

func TestThreeNodesOfRabbitMQKeepTheContractThroughKillsOfOne(t *testing.T) {
	c := newCluster(t)
	kills := 0
	brokertest.Run(t, func(t testing.TB) brokertest.Harness {
		r := newRig(t, c.at)
		h := r.harness(t)
		h.Patience = 3 * patience
		h.Restart = func(t testing.TB) {
			node := "rabbitmq3-" + string(rune('1'+kills%3))
			kills++
			c.run("kill", node)
			c.run("start", node)
			r.connect(t)
		}
		return h
	})
}
