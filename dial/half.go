package dial

import (
	"context"
	"errors"

	"github.com/settlemq/settle/broker/nats"
	"github.com/settlemq/settle/broker/rabbitmq"
	"github.com/settlemq/settle/broker/rocketmq"
	"github.com/settlemq/settle/txmsg"
)

// HalfBroker is a broker of half messages with its connections.
type HalfBroker interface {
	txmsg.Broker
	Close() error
}

// HalfMessages connects to the broker at a URL as a producer of half messages of a
// group, which is to be of one service and its database alone. It blocks as Broker
// does. A broker without half messages is txmsg.ErrUnsupported, and the error says
// what serves in their place.
func HalfMessages(ctx context.Context, rawURL, group string, cfg BrokerConfig) (HalfBroker, error) {
	if err := CheckBroker(rawURL); err != nil {
		return nil, err
	}
	if !rocketmq.IsURL(rawURL) {
		return nil, txmsg.Unsupported(kindOf(rawURL))
	}
	b, err := rocketmq.Open(ctx, rawURL, rocketmq.Config{Topics: cfg.Topics, Declare: true, Dial: cfg.Dial, Log: cfg.Logger})
	if err != nil {
		return nil, err
	}
	h, err := b.Halves(group)
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return halves{h, b}, nil
}

// halves closes the broker beside its producer.
type halves struct {
	*rocketmq.Halves
	b *rocketmq.Broker
}

func (h halves) Close() error { return errors.Join(h.Halves.Close(), h.b.Close()) }

// kindOf names the kind of broker that a URL is of.
func kindOf(rawURL string) string {
	switch {
	case isKafka(rawURL):
		return "Kafka"
	case rabbitmq.IsURL(rawURL):
		return "RabbitMQ"
	case nats.IsURL(rawURL):
		return "NATS JetStream"
	}
	return "the broker in memory"
}
