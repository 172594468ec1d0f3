package main

import (
	"context"
	"errors"
	"time"

	"github.com/settlemq/settle"
)

// classic is the queue by status at its best: one connection claims 1,000
// pending rows with SKIP LOCKED, sends them all, and marks them with one update
// in the same transaction.
func classic(l layout, carry func(context.Context, conditions) error) contender {
	return contender{name: "classic", title: "classic relay at its best (SKIP LOCKED 1,000, one update)", layout: l, carry: carry, share: 2}
}

// classicPause is the wait after a claim that found fewer than it asked for.
const classicPause = 5 * time.Millisecond

// classicBatch is the memory of one batch, used again by the next.
type classicBatch struct {
	out          *sink
	sent, failed []int64
	envelope     []byte
}

// send publishes the event of row id, and notes what became of it.
func (b *classicBatch) send(id int64, e *settle.Event) error {
	b.envelope = settle.AppendEnvelope(b.envelope[:0], e)
	switch err := b.out.publish(e.ID, b.envelope); {
	case errors.Is(err, errRefused):
		b.failed = append(b.failed, id)
	case err != nil:
		return err
	default:
		b.sent = append(b.sent, id)
	}
	return nil
}
