package main

import (
	"context"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v3/pkg/amqp"
)

// publishWatermillRabbitMQ is Watermill's publisher at its best: it waits for
// the confirm of each message, so as many goroutines as the window has publish
// at once, each on a channel of the pool, those of a key in one.
func publishWatermillRabbitMQ() way {
	return way{name: "watermill", title: "Watermill (amqp091-go), 512 goroutines", run: func(ctx context.Context, t task) error {
		cfg := wamqp.NewDurablePubSubConfig(amqpURL(t.URL), nil)
		cfg.TopologyBuilder = asItIs{}
		cfg.Publish.ConfirmDelivery, cfg.Publish.Mandatory = true, true
		cfg.Publish.ChannelPoolSize = t.Window
		p, err := wamqp.NewPublisher(cfg, watermill.NopLogger{})
		if err != nil {
			return err
		}
		defer func() { _ = p.Close() }()
		return publishWatermill(ctx, t, p)
	}}
}
