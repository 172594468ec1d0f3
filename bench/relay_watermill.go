package main

import (
	"context"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
)

// watermillDefault is Watermill's SQL subscriber as its Forwarder uses it, with
// all defaults: 100 messages a query, a second between queries that found none.
// Its messages are its own: the payload, and metadata in place of an envelope.
func watermillDefault(on watermillOn) contender {
	return contender{name: "watermill", title: "Watermill SQL subscriber, default", layout: on.layout(), share: 10,
		carry: func(ctx context.Context, c conditions) error { return on.carry(ctx, c, 0, 0) }}
}

// watermillLarge asks for 1,000 messages a query, and asks often.
func watermillLarge(on watermillOn) contender {
	return contender{name: "watermill1000", title: "Watermill SQL subscriber, batch 1,000", layout: on.layout(), share: 5,
		carry: func(ctx context.Context, c conditions) error { return on.carry(ctx, c, 1000, 5*time.Millisecond) }}
}

const (
	watermillTopic  = "events"
	watermillTable  = "watermill_" + watermillTopic
	watermillPoison = "poisoned"
)

// watermillOn is what Watermill has for a database.
type watermillOn struct {
	schema  func(batch int) wsql.SchemaAdapter
	offsets wsql.OffsetsAdapter
	open    func(ctx context.Context, at string) (db wsql.Beginner, end func(), err error)
	fill    func(context.Context, *place, filling) error
	insert  string
}

// layout is made by Watermill itself.
func (on watermillOn) layout() layout {
	return layout{fill: on.fill, insert: on.insert, table: watermillTable, create: func(ctx context.Context, p *place) error {
		db, end, err := on.open(ctx, p.url)
		if err != nil {
			return err
		}
		defer end()
		sub, err := on.subscriber(db, 0, 0)
		if err != nil {
			return err
		}
		return errors.Join(sub.SubscribeInitialize(watermillTopic), sub.SubscribeInitialize(watermillPoison), sub.Close())
	}}
}

func (on watermillOn) subscriber(db wsql.Beginner, batch int, poll time.Duration) (*wsql.Subscriber, error) {
	return wsql.NewSubscriber(db, wsql.SubscriberConfig{
		ConsumerGroup: "bench", PollInterval: poll, SchemaAdapter: on.schema(batch), OffsetsAdapter: on.offsets,
	}, watermill.NopLogger{})
}

func (on watermillOn) carry(ctx context.Context, c conditions, batch int, poll time.Duration) error {
	work := context.WithoutCancel(ctx)
	db, end, err := on.open(work, c.url)
	if err != nil {
		return err
	}
	defer end()
	handle, err := on.handler(db, c.out)
	if err != nil {
		return err
	}
	sub, err := on.subscriber(db, batch, poll)
	if err != nil {
		return err
	}
	messages, err := sub.Subscribe(work, watermillTopic)
	if err != nil {
		return errors.Join(err, sub.Close())
	}
	closed := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() { closed <- sub.Close() })
	defer stop()
	for m := range messages {
		if _, err := handle(m); err != nil {
			m.Nack()
			continue
		}
		m.Ack()
	}
	return <-closed
}

// handler publishes a message; what is refused goes to Watermill's own poison
// queue, a topic in the same database, so that the rest may go on.
func (on watermillOn) handler(db wsql.Beginner, out *sink) (message.HandlerFunc, error) {
	publisher, err := wsql.NewPublisher(db, wsql.PublisherConfig{SchemaAdapter: on.schema(0)}, watermill.NopLogger{})
	if err != nil {
		return nil, err
	}
	poison, err := middleware.PoisonQueue(publisher, watermillPoison)
	if err != nil {
		return nil, err
	}
	return poison(func(m *message.Message) ([]*message.Message, error) {
		return nil, out.publish(m.UUID, m.Payload)
	}), nil
}
