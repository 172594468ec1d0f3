package main

import (
	"context"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wsql "github.com/ThreeDotsLabs/watermill-sql/v4/pkg/sql"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// watermillDefault is Watermill's SQL subscriber as its Forwarder uses it, with
// all defaults: 100 messages a query, a second between queries that found none.
// Its messages are its own: the payload, and metadata in place of an envelope.
func watermillDefault() contender {
	return contender{name: "watermill", title: "Watermill SQL subscriber, default", layout: watermillLayout,
		carry: func(ctx context.Context, c conditions) error { return carryWatermill(ctx, c, 0, 0) }}
}

// watermillLarge asks for 1,000 messages a query, and asks often.
func watermillLarge() contender {
	return contender{name: "watermill1000", title: "Watermill SQL subscriber, batch 1,000", layout: watermillLayout,
		carry: func(ctx context.Context, c conditions) error {
			return carryWatermill(ctx, c, 1000, 5*time.Millisecond)
		}}
}

const watermillTopic = "events"

// watermillLayout is made by Watermill itself.
var watermillLayout = layout{
	create: func(ctx context.Context, _ *pgx.Conn, url string) error {
		pool, err := pgxpool.New(ctx, url)
		if err != nil {
			return err
		}
		defer pool.Close()
		sub, err := watermillSubscriber(pool, 0, 0)
		if err != nil {
			return err
		}
		return errors.Join(sub.SubscribeInitialize(watermillTopic), sub.SubscribeInitialize(watermillPoison), sub.Close())
	},
	fill:   insertWatermill + `SELECT bench_id(n), bench_payload(n, n % large = large - 1)::json, ` + watermillMetadata + `, pg_current_xact_id()`,
	insert: insertWatermill + `SELECT $1, $3::text::json, json_build_object('event_type', '` + eventType + `', 'aggregate_type', 'order', 'aggregate_id', $2::text), pg_current_xact_id()`,
	table:  "watermill_events",
}

const (
	insertWatermill   = `INSERT INTO watermill_events (uuid, payload, metadata, transaction_id) `
	watermillMetadata = `json_build_object('event_type', '` + eventType + `', 'aggregate_type', 'order', 'aggregate_id', bench_key(n))`
	watermillPoison   = "poisoned"
)

func watermillSubscriber(pool *pgxpool.Pool, batch int, poll time.Duration) (*wsql.Subscriber, error) {
	return wsql.NewSubscriber(wsql.BeginnerFromPgx(pool), wsql.SubscriberConfig{
		ConsumerGroup: "bench", PollInterval: poll,
		SchemaAdapter:  wsql.DefaultPostgreSQLSchema{SubscribeBatchSize: batch},
		OffsetsAdapter: wsql.DefaultPostgreSQLOffsetsAdapter{},
	}, watermill.NopLogger{})
}

func carryWatermill(ctx context.Context, c conditions, batch int, poll time.Duration) (err error) {
	work := context.WithoutCancel(ctx)
	pool, err := pgxpool.New(work, c.url)
	if err != nil {
		return err
	}
	defer pool.Close()
	handle, err := watermillHandler(pool, c.out)
	if err != nil {
		return err
	}
	sub, err := watermillSubscriber(pool, batch, poll)
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

// watermillHandler publishes a message; what is refused goes to Watermill's own
// poison queue, a topic in the same database, so that the rest may go on.
func watermillHandler(pool *pgxpool.Pool, out *sink) (message.HandlerFunc, error) {
	publisher, err := wsql.NewPublisher(wsql.BeginnerFromPgx(pool), wsql.PublisherConfig{SchemaAdapter: wsql.DefaultPostgreSQLSchema{}}, watermill.NopLogger{})
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
