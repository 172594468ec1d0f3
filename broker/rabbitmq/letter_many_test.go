package rabbitmq_test

import (
	"context"
	"os"
	"runtime"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle/bridge"
)

func TestAHundredThousandLettersAreReadInBoundedMemory(t *testing.T) {
	at := serverForTest(t)
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("runs with SETTLE_TEST_ALL=1: it takes a while")
	}
	c := newClimber(t, at, time.Minute)
	b := closing(t, c.connection(t))
	g := c.declare(b)
	const n, size = 100_000, 2 << 10
	var last *amqp.DeferredConfirmation
	for i := range n {
		confirm, err := c.ch.PublishWithDeferredConfirm("", g.Dead[0], true, false, amqp.Publishing{Body: make([]byte, size), DeliveryMode: amqp.Persistent})
		must(t, err)
		if i%1000 == 999 {
			if last != nil {
				last.Wait()
			}
			last = confirm
		}
	}
	last.Wait()
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
	if most > before.HeapAlloc+32<<20 {
		t.Errorf("%d bytes are held, before it were %d", most, before.HeapAlloc)
	}
}
