package relay

import (
	"context"
	"errors"
	"sync"

	"github.com/settlemq/settle"
)

// fakeBroker keeps what it takes and can be told to refuse.
type fakeBroker struct {
	mu      sync.Mutex
	log     []settle.Message
	refuse  func(settle.Message) error
	lostAck func(settle.Message) bool // stored, and answered as unknown
}

var errNoAnswer = errors.New("no answer")

func (b *fakeBroker) Publish(ctx context.Context, batch []settle.Message) []settle.Receipt {
	b.mu.Lock()
	defer b.mu.Unlock()
	receipts := make([]settle.Receipt, len(batch))
	failed := map[string]bool{}
	for i, m := range batch {
		var err error
		if b.refuse != nil {
			err = b.refuse(m)
		}
		switch {
		case ctx.Err() != nil:
			err = ctx.Err()
		case err == nil && failed[m.Event.AggregateID]:
			err = errors.New("not sent: behind a failed one")
		}
		if err != nil {
			failed[m.Event.AggregateID] = true
			receipts[i].Err = err
			continue
		}
		b.log = append(b.log, m)
		receipts[i].At = settle.Coordinates{Topic: m.Event.Topic, Offset: int64(len(b.log))}
		if b.lostAck != nil && b.lostAck(m) {
			receipts[i] = settle.Receipt{Err: errNoAnswer}
			failed[m.Event.AggregateID] = true
		}
	}
	return receipts
}

// firsts returns event ids in the order of their first copies.
func (b *fakeBroker) firsts() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := map[string]bool{}
	var ids []string
	for _, m := range b.log {
		if !seen[m.Event.ID] {
			seen[m.Event.ID] = true
			ids = append(ids, m.Event.ID)
		}
	}
	return ids
}
