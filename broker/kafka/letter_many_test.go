package kafka_test

import (
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle/bridge/bridgetest"
)

func TestAHundredThousandLettersAreReadInBoundedMemory(t *testing.T) {
	at := serverForTest(t)
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("runs with SETTLE_TEST_ALL=1: it takes a while")
	}
	c := newClimber(t, at)
	b := c.connection(t)
	defer b.Close()
	g := c.declare(b)
	const n, size = 100_000, 2 << 10
	for range n / 1000 {
		var some []*kgo.Record
		for range 1000 {
			some = append(some, &kgo.Record{Topic: c.dead(), Value: make([]byte, size)})
		}
		must(t, c.raw.ProduceSync(t.Context(), some...).FirstErr())
	}
	bridgetest.InBoundedMemory(t, b, g, n, 64<<20)
}
