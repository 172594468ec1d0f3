package main

import (
	"context"

	"github.com/IBM/sarama"
	"github.com/ThreeDotsLabs/watermill"
	wkafka "github.com/ThreeDotsLabs/watermill-kafka/v3/pkg/kafka"
	"github.com/ThreeDotsLabs/watermill/message"
	"golang.org/x/sync/errgroup"

	"github.com/settlemq/settle"
)

// publishWatermillKafka is Watermill's publisher at its best: it waits for each
// message, so as many goroutines as the window has publish at once, those of a
// key in one. Sarama puts what they send together into batches.
func publishWatermillKafka() way {
	return way{name: "watermill", title: "Watermill (Sarama), 1,000 goroutines", share: 2, run: func(ctx context.Context, t task) error {
		p, err := watermillToKafka(t.URL)
		if err != nil {
			return err
		}
		defer func() { _ = p.Close() }()
		return publishWatermill(ctx, t, p)
	}}
}

// watermillToKafka has the durability, the compression and the partitions of
// the others. Sarama allows idempotence with one request in flight only.
func watermillToKafka(at string) (*wkafka.Publisher, error) {
	cfg := wkafka.DefaultSaramaSyncPublisherConfig()
	cfg.Version = sarama.V2_6_0_0
	cfg.Producer.RequiredAcks = sarama.WaitForAll
	cfg.Producer.Idempotent, cfg.Net.MaxOpenRequests = true, 1
	cfg.Producer.Compression = sarama.CompressionZSTD
	return wkafka.NewPublisher(wkafka.PublisherConfig{Brokers: kafkaHosts(at), OverwriteSaramaConfig: cfg,
		Marshaler: wkafka.NewWithPartitioningMarshaler(func(_ string, m *message.Message) (string, error) {
			return m.Metadata.Get(settle.HeaderAggregateID), nil
		}),
	}, watermill.NopLogger{})
}

// publishWatermill publishes from as many goroutines as may wait.
func publishWatermill(ctx context.Context, t task, p message.Publisher) error {
	group, work := errgroup.WithContext(ctx)
	for _, mine := range byKey(t.messages(), t.Window) {
		group.Go(func() error {
			for _, m := range mine {
				if err := work.Err(); err != nil {
					return t.meter.unless(err)
				}
				if err := p.Publish(t.Topic, watermillMessage(m)); err != nil {
					return err
				}
				if err := t.meter.count(m.ID); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// watermillMessage has the envelope and the headers that Settle sends; Watermill
// adds its own id.
func watermillMessage(m settle.Message) *message.Message {
	w := message.NewMessage(m.ID, settle.AppendEnvelope(nil, m.Event))
	for _, p := range settle.WireHeaders(m) {
		w.Metadata.Set(p[0], p[1])
	}
	return w
}
