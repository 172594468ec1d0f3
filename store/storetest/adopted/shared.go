package adopted

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
)

// halting is a broker that takes nothing while it is down, and never the events
// of one key.
type halting struct {
	refusing
	down atomic.Bool
}

func (b *halting) Publish(ctx context.Context, batch []settle.Message) []settle.Receipt {
	if !b.down.Load() {
		return b.refusing.Publish(ctx, batch)
	}
	receipts := make([]settle.Receipt, len(batch))
	for i := range receipts {
		receipts[i].Err = errors.New("no connection")
	}
	return receipts
}

// SeveralBrokers checks that the status of events that go to two brokers, one of
// which is down, says SENT when both have them, and that no sweep takes one that
// the first has for one that was set back.
func SeveralBrokers(t *testing.T, open Open) {
	s := classic(t, open)
	s.insert(1, 20, "PENDING") // o-1 is refused for good
	s.adopt(migrate.AdoptConfig{Status: map[string][]string{migrate.StatusRetry: {"RETRY"}, migrate.StatusDead: {"DEAD"}}})
	second := &halting{refusing: refusing{Broker: newMemory(t), key: "o-1"}}
	second.down.Store(true)
	r := s.relay(newMemory(t), relay.Config{
		Routes: []relay.Route{{Also: true}, {Broker: "second"}}, Brokers: map[string]settle.Publisher{"second": second},
		Retry: settle.Backoff{Base: time.Hour, Max: time.Hour}, SweepEvery: 20 * time.Millisecond,
	})
	r.sends(20)
	s.insert(21, 40, "PENDING")
	r.sends(40)
	if got := s.statuses(); got != "PENDING 40" {
		t.Errorf("one of two brokers has the events, and they are %s", got)
	}
	second.down.Store(false)
	s.becomes("PENDING 3, RETRY 1, SENT 36")
	r.stop()
	for what, b := range map[string]*memory.Broker{"first": r.broker, "second": second.Broker} {
		ids := strings.Fields(sent(b))
		slices.Sort(ids)
		want := map[string]int{"first": 40, "second": 36}[what]
		if n := len(ids); n != want || len(slices.Compact(ids)) != want {
			t.Errorf("the %s broker has %d events, want %d, each once", what, n, want)
		}
	}
}
