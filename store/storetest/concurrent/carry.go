package concurrent

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/relay"
)

// Carry runs a relay on each log, of which one leads, to a broker in memory
// while work runs, then until all that work wants has arrived and more, unless
// it is nil, says so too; or for patience. It returns what is misplaced, and how
// many copies were sent.
func Carry(t *testing.T, logs []relay.Store, patience time.Duration, more func() bool, work func() map[string]int64) (wrong []string, sent int) {
	t.Helper()
	b := memory.New(memory.Config{})
	defer func() { _ = b.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i, log := range logs {
		r := relay.New(log, b, relay.Config{Owner: fmt.Sprint("relay-", i), HoleAge: 200 * time.Millisecond, SweepEvery: time.Second, LeaseTTL: 3 * time.Second})
		group.Go(func() {
			if err := r.Run(ctx); err != nil {
				t.Errorf("relay: %v", err)
			}
		})
	}
	want := work()
	for until := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		log := b.Log(settle.DefaultTopic)
		wrong, sent = Misplaced(log, want), len(log)
		if len(wrong) == 0 && (more == nil || more()) || time.Now().After(until) {
			break
		}
	}
	cancel()
	group.Wait()
	return wrong, sent
}
