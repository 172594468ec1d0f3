package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"

	"golang.org/x/sync/errgroup"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/consumer"
)

// settleInbox is how a store's inbox is opened, and its tables made.
type settleInbox func(ctx context.Context, at string) (inbox settle.Inbox[*sql.Tx], end func() error, err error)

// settleEach is Settle's consumer with its default config and a handler that
// makes the effect of one event: what a business writes first.
func settleEach(open settleInbox, addOne string) applier {
	return applier{name: "settle", title: "Settle, a handler per event", create: open.create, share: 5, apply: func(ctx context.Context, at string, d delivery) error {
		return open.apply(ctx, at, d, func(c *consumer.Consumer[*sql.Tx]) {
			c.Handle(eventType, func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
				_, err := tx.ExecContext(ctx, addOne, e.AggregateID)
				return err
			})
		})
	}}
}

// settleBatch has a handler that takes many events of one type at once.
func settleBatch(open settleInbox, addMany func(ctx context.Context, tx *sql.Tx, keys []string) error) applier {
	return applier{name: "settle-batch", title: "Settle, a handler per batch", create: open.create, share: 2, apply: func(ctx context.Context, at string, d delivery) error {
		return open.apply(ctx, at, d, func(c *consumer.Consumer[*sql.Tx]) {
			c.HandleBatch(eventType, func(ctx context.Context, tx *sql.Tx, events []*settle.Event) error {
				keys := make([]string, len(events))
				for i, e := range events {
					keys[i] = e.AggregateID
				}
				return addMany(ctx, tx, keys)
			})
		})
	}}
}

func (open settleInbox) create(ctx context.Context, p *place) error {
	_, end, err := open(ctx, p.url)
	if err != nil {
		return err
	}
	return end()
}

func (open settleInbox) apply(ctx context.Context, at string, d delivery, handle func(*consumer.Consumer[*sql.Tx])) error {
	inbox, end, err := open(ctx, at)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := consumer.New("bench", partitions{d, cancel}, inbox, consumer.Config{Logger: slog.New(slog.DiscardHandler)})
	handle(c)
	return errors.Join(c.Run(ctx), end())
}

// partitions deliver as a broker with eight of them does that assigns them
// itself: each in order, all at once, up to as many records as it is asked for.
type partitions struct {
	delivery
	done func()
}

const partitionCount = 8

// Subscribe implements settle.Subscriber.
func (p partitions) Subscribe(ctx context.Context, s settle.Subscription, to settle.Sink) error {
	var records [partitionCount][]settle.Record
	for i, e := range p.events {
		n := settle.PartitionOf(e.AggregateID, partitionCount)
		records[n] = append(records[n], settle.Record{Position: int64(i + 1), Event: e, Raw: e.Payload, Key: e.AggregateID, RecordedAt: e.AppendedAt,
			At: settle.Coordinates{Topic: e.Topic, Partition: n, Offset: int64(i + 1)}})
	}
	limit := s.MaxRecords
	if limit <= 0 {
		limit = 256
	}
	group, work := errgroup.WithContext(ctx)
	for n, rest := range records {
		group.Go(func() error {
			for len(rest) > 0 && work.Err() == nil {
				k := min(limit, len(rest))
				if err := to.Deliver(work, settle.Partition{Topic: settle.DefaultTopic, Number: n}, rest[:k]); err != nil {
					return err
				}
				rest = rest[k:]
			}
			return nil
		})
	}
	err := group.Wait()
	p.done()
	return err
}
