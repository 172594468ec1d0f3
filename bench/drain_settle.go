package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
)

// settleTo is Settle's relay with its default config, publishing to a broker.
func settleTo(target string, open opener) contender {
	return contender{name: target + "-settle", title: "Settle, default config", layout: settleLayoutOnPostgres(migrate.LayoutFull), carry: func(ctx context.Context, c conditions) error {
		return drainSettle(ctx, c, relay.Config{Name: "bench"}, open)
	}}
}

// leanTo is the same without the indexes that people search by, and with
// batches as large as those of the others.
func leanTo(target string, open opener) contender {
	return contender{name: target + "-lean", title: "Settle, lean (batch 1,000)", layout: settleLayoutOnPostgres(migrate.LayoutLean), carry: func(ctx context.Context, c conditions) error {
		return drainSettle(ctx, c, relay.Config{Name: "bench", BatchRows: 1000}, open)
	}}
}

func drainSettle(ctx context.Context, c conditions, cfg relay.Config, open opener) error {
	work := context.WithoutCancel(ctx)
	log, end, err := openLogOnPostgres(work, c.url)
	if err != nil {
		return err
	}
	b, err := open(work, c.broker)
	if err != nil {
		return errors.Join(err, end())
	}
	cfg.Logger = slog.New(slog.DiscardHandler)
	return errors.Join(relay.New(log, seen{b, c.out}, cfg).Run(ctx), b.Close(), end())
}

// seen counts what a broker has acknowledged. All events go to one topic, which
// is not the table's default.
type seen struct {
	settle.Publisher
	out *sink
}

// Publish implements settle.Publisher.
func (s seen) Publish(ctx context.Context, batch []settle.Message) []settle.Receipt {
	for i := range batch {
		batch[i].Event.Topic = drainTopic
	}
	receipts := s.Publisher.Publish(ctx, batch)
	for i, r := range receipts {
		if r.Err == nil {
			receipts[i].Err = s.out.acknowledged(batch[i].Event.ID)
		}
	}
	return receipts
}
