package main

import (
	"context"
	"errors"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"
)

// readWatermillRabbitMQ is Watermill's subscriber, once for each queue: one
// message of each at a time, the next when it is acknowledged.
func readWatermillRabbitMQ() way {
	return way{name: "watermill", title: "Watermill (amqp091-go), decoded", share: 2, run: func(ctx context.Context, t task) error {
		cfg := wamqp.NewDurableQueueConfig(amqpURL(t.URL))
		cfg.TopologyBuilder = asItIs{}
		cfg.Consume.Qos.PrefetchCount = prefetch
		sub, err := wamqp.NewSubscriber(cfg, watermill.NopLogger{})
		if err != nil {
			return err
		}
		var all []<-chan *message.Message
		for n := range rabbitmqPartitions {
			messages, err := sub.Subscribe(ctx, queueOf(t.Topic, t.Group, n))
			if err != nil {
				return errors.Join(err, sub.Close())
			}
			all = append(all, messages)
		}
		return errors.Join(readWatermill(ctx, t, all...), sub.Close())
	}}
}

// asItIs leaves the topology to the bench.
type asItIs struct{}

// BuildTopology implements amqp.TopologyBuilder.
func (asItIs) BuildTopology(*amqp.Channel, wamqp.BuildTopologyParams, wamqp.Config, watermill.LoggerAdapter) error {
	return nil
}

// ExchangeDeclare implements amqp.TopologyBuilder.
func (asItIs) ExchangeDeclare(*amqp.Channel, string, wamqp.Config) error { return nil }
