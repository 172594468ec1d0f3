package bridgetest

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/settlemq/settle/bridge"
)

// readingTime is what reading and returning may take on a busy machine.
const readingTime = time.Minute

// Letters reads n letters of a group, and fails when there are more or fewer.
func Letters(t testing.TB, b bridge.Broker, g bridge.Group, n int) []bridge.Letter {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), readingTime)
	defer stop()
	var all []bridge.Letter
	err := sourceOf(t, b, g).Letters(ctx, func(_ context.Context, some []bridge.Letter) error {
		if all = append(all, some...); len(all) >= n {
			stop()
		}
		return nil
	})
	if err != nil || len(all) != n {
		t.Fatalf("there are %d letters, want %d: %v", len(all), n, err)
	}
	return all
}

// SendBack returns a letter once, as a bridge does.
func SendBack(t testing.TB, b bridge.Broker, g bridge.Group, l bridge.Letter, to bridge.Target) error {
	t.Helper()
	l.Record.Event, l.Record.DecodeErr = nil, nil
	ctx, cancel := context.WithTimeout(t.Context(), readingTime)
	defer cancel()
	return sourceOf(t, b, g).Return(ctx, bridge.Return{ID: "r1", To: to, Letter: l})
}

// InBoundedMemory reads n letters that lie there, and fails when they take more
// than room bytes of the heap at any time.
func InBoundedMemory(t testing.TB, b bridge.Broker, g bridge.Group, n int, room uint64) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 10*readingTime)
	defer stop()
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	begin, found, most := time.Now(), 0, uint64(0)
	err := sourceOf(t, b, g).Letters(ctx, func(_ context.Context, some []bridge.Letter) error {
		if found/10_000 != (found+len(some))/10_000 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc)
		}
		if found += len(some); found >= n {
			stop()
		}
		return nil
	})
	if err != nil || found != n {
		t.Fatalf("%d letters of %d came: %v", found, n, err)
	}
	t.Logf("%d letters, %.0f a second", n, float64(n)/time.Since(begin).Seconds())
	if most == 0 || most > before.HeapAlloc+room {
		t.Errorf("%d bytes are held, before it were %d", most, before.HeapAlloc)
	}
}

func sourceOf(t testing.TB, b bridge.Broker, g bridge.Group) bridge.Source {
	t.Helper()
	s, err := b.Source(g)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
