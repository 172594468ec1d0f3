package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/consumer"
)

type opener func(ctx context.Context, url string) (settle.Broker, error)

// readSettle is Settle's adapter with a sink that only counts.
func readSettle(open opener) way {
	return way{name: "settle", title: "Settle Subscriber, a sink that counts", run: func(ctx context.Context, t task) error {
		b, err := open(ctx, t.URL)
		if err != nil {
			return err
		}
		err = b.Subscribe(ctx, settle.Subscription{Group: t.Group, Topics: []string{t.Topic}}, counting{t.meter})
		return errors.Join(err, b.Close())
	}}
}

// counting is the effect of nothing.
type counting struct{ meter *meter }

// Deliver implements settle.Sink.
func (c counting) Deliver(_ context.Context, _ settle.Partition, records []settle.Record) error {
	for _, r := range records {
		if r.DecodeErr != nil {
			return r.DecodeErr
		}
		if err := c.meter.count(r.Event.ID); err != nil {
			return err
		}
	}
	return nil
}

// consumeSettle is Settle's consumer with its default config and a handler that
// only counts: all that it decides is at work, but the database.
func consumeSettle(open opener) way {
	return way{name: "consumer", title: "Settle consumer, a handler that counts", run: func(ctx context.Context, t task) error {
		b, err := open(ctx, t.URL)
		if err != nil {
			return err
		}
		c := consumer.New(t.Group, b, nullInbox{}, consumer.Config{Topics: []string{t.Topic}, Logger: slog.New(slog.DiscardHandler)})
		c.Handle(eventType, func(_ context.Context, _ struct{}, e *settle.Event) error { return t.meter.count(e.ID) })
		return errors.Join(c.Run(ctx), b.Close())
	}}
}

// nullInbox stands for a database that takes everything at once.
type nullInbox struct{}

var _ settle.Inbox[struct{}] = nullInbox{}

// Apply implements settle.Inbox.
func (nullInbox) Apply(ctx context.Context, w settle.Work, handle func(context.Context, struct{}, int) error) ([]settle.Result, error) {
	results := make([]settle.Result, len(w.Items))
	for i := range w.Items {
		if err := handle(ctx, struct{}{}, i); err != nil {
			return nil, err
		}
	}
	if w.BeforeCommit != nil {
		return results, w.BeforeCommit(ctx)
	}
	return results, nil
}

// Due implements settle.Inbox.
func (nullInbox) Due(context.Context, string, int) (d settle.Due, err error) { return d, nil }

// Claim implements settle.Inbox. These brokers assign partitions themselves.
func (nullInbox) Claim(context.Context, settle.ClaimRequest) ([]settle.Claim, error) { return nil, nil }

// Release implements settle.Inbox.
func (nullInbox) Release(context.Context, string, string) error { return nil }

// Attend implements settle.Inbox.
func (nullInbox) Attend(context.Context, settle.Attendance) (d settle.Departed, err error) {
	return d, nil
}

// Hold implements settle.Inbox.
func (nullInbox) Hold(context.Context, settle.Hand) error { return nil }

// RaiseFloor implements settle.Inbox.
func (nullInbox) RaiseFloor(context.Context, string, settle.Partition, settle.Floor) error {
	return nil
}

// Forget implements settle.Inbox.
func (nullInbox) Forget(context.Context, string, time.Time, int) (int, error) { return 0, nil }

// Controls implements settle.Inbox.
func (nullInbox) Controls(context.Context) (c settle.Controls, err error) { return c, nil }
