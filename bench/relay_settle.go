package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

// settleRelay is how a store's log is opened.
type settleRelay func(ctx context.Context, at string) (log relay.Store, end func() error, err error)

// settleDefault is Settle's relay with its default config on the tables that it
// makes. All that it promises is at work: the lease, holes, the durability
// check, a checkpoint for each batch.
func settleDefault(l layout, open settleRelay) contender {
	return contender{name: "settle", title: "Settle, default config", layout: l, carry: func(ctx context.Context, c conditions) error {
		return carrySettle(ctx, c, relay.Config{Name: "bench"}, open)
	}}
}

// settleLean is the same without the indexes that people search by, and with
// batches as large as those of the others.
func settleLean(l layout, open settleRelay) contender {
	return contender{name: leanName, title: "Settle, lean (batch 1,000)", layout: l, carry: func(ctx context.Context, c conditions) error {
		return carrySettle(ctx, c, relay.Config{Name: "bench", BatchRows: 1000}, open)
	}}
}

const leanName = "lean"

func carrySettle(ctx context.Context, c conditions, cfg relay.Config, open settleRelay) error {
	log, end, err := open(context.WithoutCancel(ctx), c.url)
	if err != nil {
		return err
	}
	cfg.LeaseTTL = c.lease
	cfg.Logger = slog.New(slog.DiscardHandler)
	return errors.Join(relay.New(log, &nullBroker{out: c.out}, cfg).Run(ctx), end())
}

// nullBroker does what every adapter of a broker does with a message, and no
// more: check that it can be sent, encode it.
type nullBroker struct {
	out *sink
	// offset rises by one for each message that is taken.
	offset atomic.Int64
	// envelopes are buffers of calls: several may be in flight.
	envelopes sync.Pool
}

var _ settle.Publisher = (*nullBroker)(nil)

// Publish implements settle.Publisher.
func (b *nullBroker) Publish(_ context.Context, batch []settle.Message) []settle.Receipt {
	receipts := make([]settle.Receipt, len(batch))
	buffer, ok := b.envelopes.Get().(*[]byte)
	if !ok {
		buffer = new([]byte)
	}
	for i, m := range batch {
		receipts[i] = b.send(m, buffer)
	}
	b.envelopes.Put(buffer)
	return receipts
}

func (b *nullBroker) send(m settle.Message, buffer *[]byte) settle.Receipt {
	if err := m.Validate(); err != nil {
		return settle.Receipt{Err: err}
	}
	*buffer = settle.AppendEnvelope((*buffer)[:0], m.Event)
	if err := b.out.publish(m.Event.ID, *buffer); err != nil {
		return settle.Receipt{Err: &settle.PublishError{Scope: settle.ScopeRecord, Err: err}}
	}
	return settle.Receipt{At: settle.Coordinates{Topic: m.Event.Topic, Offset: b.offset.Add(1)}}
}
