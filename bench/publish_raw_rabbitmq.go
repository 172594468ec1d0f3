package main

import (
	"context"
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
)

// publishRawRabbitMQ is amqp091-go at its best for as many unconfirmed
// messages: one channel, a window that slides. Events of a key stand in it one
// behind the other: when one is refused, those behind it are taken.
func publishRawRabbitMQ() way {
	return way{name: rawName, title: "raw amqp091-go, a window of 512", run: func(ctx context.Context, t task) error {
		c, err := dialAMQP(t.URL, t.Topic, t.Window)
		if err != nil {
			return err
		}
		defer c.close()
		for _, m := range t.messages() {
			if err := c.publish(m, t.meter.count); err != nil {
				return err
			}
		}
		return c.settle(0, t.meter.count)
	}}
}

// confirming is a channel with confirms, and what waits for them in order.
type confirming struct {
	conn     *amqp.Connection
	ch       *amqp.Channel
	exchange string
	window   int
	returned chan amqp.Return
	flying   []flying
}

type flying struct {
	id      string
	confirm *amqp.DeferredConfirmation
}

func dialAMQP(at, exchange string, window int) (*confirming, error) {
	conn, err := amqp.Dial(amqpURL(at))
	if err != nil {
		return nil, err
	}
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &confirming{conn: conn, ch: ch, exchange: exchange, window: window, returned: ch.NotifyReturn(make(chan amqp.Return, window))}, nil
}

func (c *confirming) close() { _ = c.conn.Close() }

// publish sends a message when there is room in the window.
func (c *confirming) publish(m settle.Message, confirmed func(id string) error) error {
	if err := c.settle(c.window-1, confirmed); err != nil {
		return err
	}
	confirm, err := c.ch.PublishWithDeferredConfirm(c.exchange, m.Event.Type, true, false, publishingOf(m))
	if err != nil {
		return err
	}
	c.flying = append(c.flying, flying{m.ID, confirm})
	return nil
}

// settle waits until so many are left in flight at most, and takes what is
// confirmed.
func (c *confirming) settle(left int, confirmed func(id string) error) error {
	for len(c.flying) > 0 {
		f := c.flying[0]
		if len(c.flying) <= left {
			select {
			case <-f.confirm.Done():
			default:
				return nil
			}
		}
		if !f.confirm.Wait() || len(c.returned) > 0 {
			return errors.New("a message was refused, or sent back")
		}
		c.flying = c.flying[1:]
		if err := confirmed(f.id); err != nil {
			return err
		}
	}
	return nil
}

// publishingOf has the envelope, the headers and the properties that Settle sends.
func publishingOf(m settle.Message) amqp.Publishing {
	pairs := settle.WireHeaders(m)
	headers := make(amqp.Table, len(pairs))
	for _, p := range pairs {
		headers[p[0]] = p[1]
	}
	return amqp.Publishing{Headers: headers, ContentType: settle.ContentTypeJSON, DeliveryMode: amqp.Persistent, MessageId: m.ID, Type: m.Event.Type,
		AppId: m.Source, Timestamp: m.Event.AppendedAt, Body: settle.AppendEnvelope(nil, m.Event)}
}
