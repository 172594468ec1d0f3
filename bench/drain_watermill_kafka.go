package main

import (
	"context"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/forwarder"
	"github.com/ThreeDotsLabs/watermill/message"
)

// forwarderToKafka is Watermill's Forwarder, from its SQL subscriber at its best
// (1,000 messages a query, asked often) to its publisher to Kafka.
func forwarderToKafka() contender {
	on := watermillPostgres()
	on.fill = fillPostgres(watermillTable, insertWatermillPostgres+`SELECT bench_id(n), `+wrappedPostgres("bench_id(n)", "bench_key(n)", "bench_payload(n, n % large = large - 1)")+`, '{}', pg_current_xact_id()`)
	on.insert = insertWatermillPostgres + `SELECT $1, ` + wrappedPostgres("$1::text", "$2::text", "$3::text") + `, '{}', pg_current_xact_id()`
	return contender{name: kafkaName + "-watermill", title: "Watermill Forwarder, batch 1,000", layout: on.layout(), share: 20, carry: func(ctx context.Context, c conditions) error {
		return on.forward(ctx, c)
	}}
}

// wrappedPostgres is a message of the Forwarder's: the envelope that it unwraps.
func wrappedPostgres(id, key, payload string) string {
	return `json_build_object('destination_topic', '` + drainTopic + `', 'uuid', ` + id + `, 'payload', translate(encode(convert_to(` + payload + `, 'UTF8'), 'base64'), E'\n', ''), 'metadata', ` +
		`json_build_object('event_type', '` + eventType + `', 'aggregate_type', 'order', 'settle-aggregate-id', ` + key + `))`
}

func (on watermillOn) forward(ctx context.Context, c conditions) error {
	work := context.WithoutCancel(ctx)
	db, end, err := on.open(work, c.url)
	if err != nil {
		return err
	}
	defer end()
	sub, err := on.subscriber(db, 1000, 5*time.Millisecond)
	if err != nil {
		return err
	}
	p, err := watermillToKafka(c.broker)
	if err != nil {
		return errors.Join(err, sub.Close())
	}
	f, err := forwarder.NewForwarder(sub, seenByWatermill{p, c.out}, watermill.NopLogger{}, forwarder.Config{ForwarderTopic: watermillTopic})
	if err != nil {
		return errors.Join(err, sub.Close(), p.Close())
	}
	defer context.AfterFunc(ctx, func() { _ = f.Close() })()
	return errors.Join(f.Run(work), p.Close())
}

// seenByWatermill counts what the broker has acknowledged.
type seenByWatermill struct {
	message.Publisher
	out *sink
}

// Publish implements message.Publisher.
func (s seenByWatermill) Publish(topic string, messages ...*message.Message) error {
	if err := s.Publisher.Publish(topic, messages...); err != nil {
		return err
	}
	for _, m := range messages {
		if err := s.out.acknowledged(m.UUID); err != nil {
			return err
		}
	}
	return nil
}
