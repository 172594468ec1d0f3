package cli_test

import (
	"os"
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/internal/services"
)

func TestADemoOnRocketMQLeavesTheServerAsItWas(t *testing.T) {
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("a demo on RocketMQ waits for its customers: set SETTLE_TEST_ALL=1")
	}
	at := services.URL(t, "SETTLE_TEST_ROCKETMQ", "rocketmq")
	code, out, errs := output(t, "demo", "--broker", at, "--orders", "60", "--seed", "1", "--json", "--timeout", "4m",
		"--faults", "relay-kill,consumer-kill,lost-ack,duplicate,broker-cut")
	r := proofOf(t, code, out, errs)
	topic := topicOf(errs)
	if r.Orders.Accepted != 60 || r.Deliveries.Duplicate == 0 || !strings.HasSuffix(topic, settle.DefaultTopic) {
		t.Errorf("%+v, %s", r, errs)
	}
	tap, err := dial.Tap(at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tap.Close() }()
	left := 0
	if err := tap.ReadAll(t.Context(), topic, func(settle.Record) error { left++; return nil }); err != nil || left > 0 {
		t.Errorf("%d records of the topic %s are left, %v", left, topic, err)
	}
}
