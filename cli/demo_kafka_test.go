package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/drill"
	"github.com/settlemq/settle/examples/shop"
	"github.com/settlemq/settle/internal/services"
)

// kafkaForTest is a cluster that others use, too.
func kafkaForTest(t *testing.T) string {
	t.Helper()
	return services.URL(t, "SETTLE_TEST_KAFKA", "kafka")
}

func TestADemoOnKafkaBreaksWhatCanBeBrokenThereAndLeavesTheClusterAsItWas(t *testing.T) {
	at := kafkaForTest(t)
	code, out, errs := output(t, "demo", "--broker", at, "--orders", "60", "--seed", "1", "--json", "--timeout", "4m",
		"--faults", "relay-kill,consumer-kill,lost-ack,duplicate,broker-cut")
	r := proofOf(t, code, out, errs)
	topic := topicOf(errs)
	if r.Orders.Accepted != 60 || r.Deliveries.Duplicate == 0 || !strings.Contains(errs, "Left out, since the broker is not the demo's own: broker-stop.") {
		t.Errorf("%+v, %s", r, errs)
	}
	admin := kafkaAdmin(t, at)
	topics, err := admin.ListTopics(t.Context())
	if err != nil || topic == "" || topics.Has(topic) {
		t.Errorf("the topic %q is left, or was never told; %v", topic, err)
	}
	groups, err := admin.ListGroups(t.Context())
	prefix := strings.TrimSuffix(topic, settle.DefaultTopic)
	if left := slices.DeleteFunc(groups.Groups(), func(g string) bool { return !strings.HasPrefix(g, prefix) }); err != nil || len(left) > 0 {
		t.Errorf("groups are left: %v, %v", left, err)
	}
}

func proofOf(t *testing.T, code int, out, errs string) (r drill.Report) {
	t.Helper()
	if code != cli.ExitOK {
		t.Fatalf("exit %d\n%s\n%s", code, out, errs)
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Faults {
		if f.Times < 1 {
			t.Errorf("%s happened %d times", f.Name, f.Times)
		}
	}
	if bad := r.Failures(); len(bad) > 0 {
		t.Errorf("%v, %+v", bad, r)
	}
	return r
}

// topicOf returns the topic that a demo says it uses.
func topicOf(said string) string {
	_, rest, _ := strings.Cut(said, "Events go to the topic ")
	topic, _, _ := strings.Cut(rest, ". Left out")
	return topic
}

func kafkaAdmin(t *testing.T, at string) *kadm.Client {
	t.Helper()
	admin, err := kadm.NewOptClient(kgo.SeedBrokers(strings.Split(strings.TrimPrefix(at, "kafka://"), ",")...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.Close)
	return admin
}

func TestADemoOnKafkaUnderAllFaultsProvesTheSameAndItsShopGoesOnThere(t *testing.T) {
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("a demo of all faults takes half a minute: set SETTLE_TEST_ALL=1")
	}
	db, _ := shopDatabase(t)
	at, dir := kafkaForTest(t), filepath.Join(t.TempDir(), "shop")
	t.Cleanup(func() {
		if err := shop.DropBroker(context.Background(), dir); err != nil {
			t.Error(err)
		}
	})
	code, out, errs := output(t, "demo", "--broker", at, "--db", db, "--scenario", "everything", "--orders", "200", "--seed", "3", "--dir", dir, "--json", "--timeout", "5m")
	r := proofOf(t, code, out, errs)
	if r.Orders.Accepted != 200 || r.Orders.Completed+r.Orders.Cancelled != 200 || len(r.Faults) != len(drill.FaultNames())-1 || len(r.Letters) == 0 {
		t.Errorf("%+v", r)
	}
	goOnWithLetter(t, dir, topicOf(errs), r.Letters[0])
}

// goOnWithLetter replays a dead letter that a demo left, and runs its shop until
// what follows from it stands in the trail, with the places in topic.
func goOnWithLetter(t *testing.T, dir, topic string, l drill.Letter) {
	t.Helper()
	if code, out, errs := output(t, "dead", "replay", l.ID, "--dir", dir, "--reason", "the coupon system answers again"); code != cli.ExitOK {
		t.Fatalf("replay: exit %d, %s, %s", code, out, errs)
	}
	goOn := program(t, "shop", "--dir", dir, "--listen", "127.0.0.1:0")
	if err := goOn.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = goOn.Process.Kill(); _ = goOn.Wait() }()
	within(t, 2*time.Minute, "the letter is dealt with", func() bool {
		_, out, _ := output(t, "dead", "show", l.ID, "--dir", dir)
		return strings.Contains(out, "REPLAYED")
	})
	if _, out, _ := output(t, "trail", l.Key, "--dir", dir); !strings.Contains(out, topic+"[") {
		t.Errorf("the trail names no place in %s: %s", topic, out)
	}
}
