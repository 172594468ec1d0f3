package main

import (
	"context"
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/errgroup"

	"github.com/settlemq/settle"
)

// prefetch is Settle's default, for all ways.
const prefetch = 128

// readRawRabbitMQ is a consumer as it is written by hand with amqp091-go: a
// channel and a goroutine for each queue, which holds the keys of its own, and
// an acknowledgement of all that has come when no more is there.
func readRawRabbitMQ() way {
	return way{name: rawName, title: "raw amqp091-go, decoded, a goroutine for each queue", run: func(ctx context.Context, t task) error {
		conn, err := amqp.Dial(amqpURL(t.URL))
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		group, ctx := errgroup.WithContext(ctx)
		for n := range rabbitmqPartitions {
			group.Go(func() error { return readQueue(ctx, t, conn, queueOf(t.Topic, t.Group, n)) })
		}
		return group.Wait()
	}}
}

func readQueue(ctx context.Context, t task, conn *amqp.Connection, queue string) error {
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := ch.Qos(prefetch, 0, false); err != nil {
		return err
	}
	found, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	unacked, last := 0, uint64(0)
	acknowledge := func() error {
		unacked = 0
		return ch.Ack(last, true)
	}
	for {
		var d amqp.Delivery
		select {
		case d = <-found:
		default:
			if unacked > 0 {
				if err := acknowledge(); err != nil {
					return t.meter.unless(err)
				}
			}
			select {
			case d = <-found:
			case <-ctx.Done():
				return t.meter.unless(ctx.Err())
			}
		}
		if d.Acknowledger == nil {
			return t.meter.unless(errors.New("the channel has ended"))
		}
		if err := countDelivery(d, t.meter); err != nil {
			return err
		}
		if unacked, last = unacked+1, d.DeliveryTag; unacked == prefetch/2 {
			if err := acknowledge(); err != nil {
				return t.meter.unless(err)
			}
		}
	}
}

func countDelivery(d amqp.Delivery, m *meter) error {
	headers := make(map[string]string, len(d.Headers))
	for k, v := range d.Headers {
		if text, is := v.(string); is {
			headers[k] = text
		}
	}
	e, err := settle.DecodeEnvelope(d.Body, headers)
	if err != nil {
		return err
	}
	return m.count(e.ID)
}
