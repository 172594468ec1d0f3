package dial

import (
	"context"
	"errors"
	"fmt"

	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/broker/nats"
	"github.com/settlemq/settle/broker/rabbitmq"
	"github.com/settlemq/settle/broker/rocketmq"
)

// CheckBridge returns an error if a URL can't be that of a broker with
// dead-letter places of its own; it shows nothing of the URL. It does no I/O.
func CheckBridge(rawURL string) error {
	if err := CheckBroker(rawURL); err != nil {
		return err
	}
	if !isKafka(rawURL) && !rabbitmq.IsURL(rawURL) && !rocketmq.IsURL(rawURL) && !nats.IsURL(rawURL) {
		return errors.New("only Kafka, RabbitMQ, RocketMQ and NATS have dead letters of consumers that are not ours")
	}
	return nil
}

// Bridge connects to the broker at a URL, to read the dead letters that others
// leave there and to send them back. It blocks until the broker answers, about
// 10 s at most, or until ctx is done. Of cfg, Dial and Logger are used.
func Bridge(ctx context.Context, rawURL string, cfg BrokerConfig) (bridge.Broker, error) {
	if err := CheckBridge(rawURL); err != nil {
		return nil, err
	}
	b, err := Broker(ctx, rawURL, BrokerConfig{Dial: cfg.Dial, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	of, ok := b.(bridge.Broker)
	if !ok {
		return nil, errors.Join(fmt.Errorf("a %T has no dead letters of its own", b), b.Close())
	}
	return of, nil
}
