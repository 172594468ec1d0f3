package main

import (
	"context"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
)

func rawToKafka() contender {
	return rawTo(kafkaName, "raw franz-go", func(c conditions) (rawPublisher, error) { return newKafkaClient(c.broker) })
}

// kafkaClient is a client of Kafka with the window of all ways.
type kafkaClient struct {
	cl     *kgo.Client
	failed atomic.Pointer[error]
}

func newKafkaClient(at string) (*kafkaClient, error) {
	cl, err := rawKafkaProducer(at, toKafkaWindow)
	return &kafkaClient{cl: cl}, err
}

func (p *kafkaClient) publish(m settle.Message, acknowledged func(id string) error) error {
	p.cl.Produce(context.Background(), recordOf(m), func(_ *kgo.Record, err error) {
		if err == nil {
			err = acknowledged(m.ID)
		}
		if err != nil {
			p.failed.CompareAndSwap(nil, &err)
		}
	})
	return p.err()
}

func (p *kafkaClient) err() error {
	if failed := p.failed.Load(); failed != nil {
		return *failed
	}
	return nil
}

func (p *kafkaClient) flush(func(id string) error) error {
	if err := p.cl.Flush(context.Background()); err != nil {
		return err
	}
	return p.err()
}

func (p *kafkaClient) close() { p.cl.Close() }
