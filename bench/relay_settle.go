package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/postgres"
)

// settleDefault is Settle's relay with its default config on the tables that it
// makes. All that it promises is at work: the lease, holes, the durability
// check, a checkpoint for each batch.
func settleDefault() contender {
	return contender{name: "settle", title: "Settle, default config", layout: settleLayout(migrate.LayoutFull), carry: func(ctx context.Context, c conditions) error {
		return carrySettle(ctx, c, relay.Config{Name: "bench"})
	}}
}

// settleLean is the same without the indexes that people search by, and with
// batches as large as those of the others.
func settleLean() contender {
	lean := settleLayout(migrate.LayoutLean)
	return contender{name: leanName, title: "Settle, lean (batch 1,000)", layout: lean, carry: func(ctx context.Context, c conditions) error {
		return carrySettle(ctx, c, relay.Config{Name: "bench", BatchRows: 1000})
	}}
}

const leanName = "lean"

// settleLayout is made by Settle itself.
func settleLayout(of migrate.Layout) layout {
	l := logLayout
	l.create = func(ctx context.Context, _ *pgx.Conn, url string) error { return makeSettle(ctx, url, of) }
	return l
}

// makeSettle does what settle migrate does, with --lean or without.
func makeSettle(ctx context.Context, url string, of migrate.Layout) error {
	schema, err := postgres.Schema(ctx, url, true)
	if err != nil {
		return err
	}
	if _, err = schema.Up(ctx); err == nil {
		_, err = schema.ChangeLayout(ctx, of)
	}
	return errors.Join(err, schema.Close())
}

func carrySettle(ctx context.Context, c conditions, cfg relay.Config) error {
	store, err := postgres.Open(context.WithoutCancel(ctx), c.url, postgres.Config{})
	if err != nil {
		return err
	}
	cfg.LeaseTTL = c.lease
	cfg.Logger = slog.New(slog.DiscardHandler)
	return errors.Join(relay.New(store.Log(), &nullBroker{out: c.out}, cfg).Run(ctx), store.Close())
}

// nullBroker does what every adapter of a broker does with a message, and no
// more: check that it can be sent, encode it.
type nullBroker struct {
	out *sink
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
	return settle.Receipt{At: settle.Coordinates{Topic: m.Event.Topic}}
}
