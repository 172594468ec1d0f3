package main

import (
	"context"
	"errors"
	"runtime"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	wkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"golang.org/x/sync/errgroup"

	"github.com/settlemq/settle"
)

// readWatermillKafka is Watermill's subscriber: one message of each partition at
// a time, the next when it is acknowledged.
func readWatermillKafka() way {
	return way{name: "watermill", title: "Watermill (Sarama), decoded", share: 4, run: func(ctx context.Context, t task) error {
		cfg := wkafka.DefaultSaramaSubscriberConfig()
		cfg.Version = sarama.V2_6_0_0
		cfg.Consumer.Offsets.Initial = sarama.OffsetOldest
		cfg.Consumer.IsolationLevel = sarama.ReadCommitted
		sub, err := wkafka.NewSubscriber(wkafka.SubscriberConfig{Brokers: kafkaHosts(t.URL), Unmarshaler: wkafka.DefaultMarshaler{}, ConsumerGroup: t.Group, OverwriteSaramaConfig: cfg}, watermill.NopLogger{})
		if err != nil {
			return err
		}
		messages, err := sub.Subscribe(ctx, t.Topic)
		if err == nil {
			err = readWatermill(ctx, t, messages)
		}
		return errors.Join(err, sub.Close())
	}}
}

// readWatermill decodes and counts what comes, on all cores.
func readWatermill(ctx context.Context, t task, channels ...<-chan *message.Message) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, messages := range channels {
		for range runtime.GOMAXPROCS(0) {
			group.Go(func() error {
				for {
					select {
					case <-ctx.Done():
						return t.meter.unless(ctx.Err())
					case m, ok := <-messages:
						if !ok {
							return t.meter.unless(errors.New("messages have ended"))
						}
						e, err := settle.DecodeEnvelope(m.Payload, m.Metadata)
						if err == nil {
							err = t.meter.count(e.ID)
						}
						if err != nil {
							return err
						}
						m.Ack()
					}
				}
			})
		}
	}
	return group.Wait()
}
