package kafka_test

import (
	"context"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle/bridge"
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
	s, err := b.Source(g)
	must(t, err)
	ctx, stop := context.WithTimeout(t.Context(), 10*patience)
	defer stop()
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	begin, found, most := time.Now(), 0, uint64(0)
	must(t, s.Letters(ctx, func(_ context.Context, some []bridge.Letter) error {
		if found/10_000 != (found+len(some))/10_000 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
		}
		if found += len(some); found == n {
			stop()
		}
		return nil
	}))
	if found != n {
		t.Fatalf("%d letters of %d came", found, n)
	}
	t.Logf("%d letters of %d bytes, %.0f a second", n, size, n/time.Since(begin).Seconds())
	if most > before.HeapAlloc+64<<20 {
		t.Errorf("%d bytes are held, before it were %d", most, before.HeapAlloc)
	}
}
