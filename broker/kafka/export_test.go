package kafka

import (
	"context"
	"testing"

	"github.com/settlemq/settle"
)

// LeaveOpen publishes in a transaction of a relay's, and does not end it: the
// process has died there.
func LeaveOpen(ctx context.Context, t testing.TB, b *Broker, outbox string, batch []settle.Message) {
	t.Helper()
	f := b.fence(settle.Message{Lead: settle.Lead{Outbox: outbox}})
	if err := f.with.cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	part := newPublication(b, ctx, batch)
	part.with = f.with
	part.produce()
	for _, r := range part.receipts {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}
