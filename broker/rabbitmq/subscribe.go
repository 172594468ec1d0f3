package rabbitmq

import (
	"context"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/cloudevents"
)

// defaultRecords and defaultBytes bound a delivery.
const defaultRecords, defaultBytes = 256, 1 << 20

// Subscribe implements settle.Subscriber. It declares the group's queues;
// members share them, each in at most one member's hands. More members than
// queues are idle.
func (b *Broker) Subscribe(ctx context.Context, s settle.Subscription, sink settle.Sink) error {
	switch {
	case s.Group == "":
		return errors.New("subscribe: the group has no name")
	case len(s.Topics) == 0:
		return errors.New("subscribe: there is no topic")
	}
	if why := badName("group", s.Group); why != "" {
		return fmt.Errorf("subscribe: %s", why)
	}
	for _, name := range s.Topics {
		if why := badName("topic", name); why != "" {
			return fmt.Errorf("subscribe: %s", why)
		}
	}
	if err := b.begin(); err != nil {
		return err
	}
	defer b.calls.Done()
	if s.MaxRecords <= 0 {
		s.MaxRecords = defaultRecords
	}
	if s.MaxBytes <= 0 {
		s.MaxBytes = defaultBytes
	}
	ctx, cancel := b.living(ctx)
	defer cancel()
	b.read()
	newMember(b, s, sink).run(ctx)
	if errors.Is(context.Cause(ctx), settle.ErrClosed) {
		return settle.ErrClosed
	}
	return nil
}

// record decodes what was delivered. RabbitMQ has no time and no position of
// it: the position is counted here.
func record(at place, position int64, d amqp.Delivery) settle.Record {
	r := settle.Record{Position: position, Raw: d.Body, Headers: decodeHeaders(d.Headers), At: settle.Coordinates{Topic: at.topic, Partition: at.number}}
	key, is := r.Headers[settle.HeaderAggregateID]
	r.Key = key
	cloudevents.AMQP.Read(&r, d.ContentType)
	if r.Event != nil {
		r.Event.Topic = at.topic
	}
	if !is {
		r.Key = d.RoutingKey
	}
	return r
}
