package dial

import (
	"context"
	"log/slog"
	"net"
	"strings"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/kafka"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/broker/nats"
	"github.com/settlemq/settle/broker/rabbitmq"
	"github.com/settlemq/settle/broker/rocketmq"
)

// BrokerConfig says how a broker is used. The zero value works.
type BrokerConfig struct {
	// Topics are made by Broker when they are missing. Defaults to none: a
	// topic is made when it is first used.
	Topics []string
	// Groups are the consumer groups of Topics, for a broker that keeps events
	// only for the groups that it knows (RabbitMQ). Defaults to none: such a
	// group receives what is published after its first Subscribe.
	Groups []string
	// InstanceID names this process to a broker that assigns partitions: what it
	// had is kept for the next one of that name for some seconds. No two may have
	// one at a time. Defaults to none; only Kafka knows such names.
	InstanceID string
	// Dial makes the connections to a broker, for tests that stand between.
	// Defaults to TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Logger takes warnings. Defaults to none.
	Logger *slog.Logger
}

// CheckBroker returns a *URLError if a URL can't be that of a broker. It does
// no I/O.
func CheckBroker(rawURL string) error {
	switch {
	case isKafka(rawURL):
		return checkKafka(rawURL)
	case rabbitmq.IsURL(rawURL):
		return checkRabbitMQ(rawURL)
	case nats.IsURL(rawURL):
		return checkNATS(rawURL)
	case rocketmq.IsURL(rawURL):
		return checkRocketMQ(rawURL)
	}
	return checkMemory(rawURL)
}

// isKafka tells by the beginning: several hosts are no URL to other readers.
func isKafka(rawURL string) bool { return strings.HasPrefix(rawURL, "kafka://") }

func checkKafka(rawURL string) error {
	if err := kafka.CheckURL(rawURL); err != nil {
		return &URLError{Kind: "broker", Wrong: "kafka://…", Reason: err.Error() + ", in", Right: brokerURLs()[1:2]}
	}
	return nil
}

func checkRabbitMQ(rawURL string) error {
	if err := rabbitmq.CheckURL(rawURL); err != nil {
		return &URLError{Kind: "broker", Wrong: "rabbitmq://…", Reason: err.Error() + ", in", Right: brokerURLs()[2:3]}
	}
	return nil
}

func checkNATS(rawURL string) error {
	if err := nats.CheckURL(rawURL); err != nil {
		return &URLError{Kind: "broker", Wrong: "nats://…", Reason: err.Error() + ", in", Right: brokerURLs()[:1]}
	}
	return nil
}

func checkRocketMQ(rawURL string) error {
	if err := rocketmq.CheckURL(rawURL); err != nil {
		return &URLError{Kind: "broker", Wrong: "rocketmq://…", Reason: err.Error() + ", in", Right: brokerURLs()[3:4]}
	}
	return nil
}

// checkMemory comes last: what has no other scheme is wrong.
func checkMemory(rawURL string) error {
	u, err := parse("broker", rawURL, brokerURLs())
	if err != nil || u.Scheme == "memory" {
		return err
	}
	return unknownScheme("broker", u, brokerURLs())
}

// Broker connects to the broker at a URL. It blocks until the broker answers,
// about 10 s at most, or until ctx is done. A URL that can't be is a
// *URLError; any other error means that the broker did not answer.
func Broker(ctx context.Context, rawURL string, cfg BrokerConfig) (settle.Broker, error) {
	if isKafka(rawURL) {
		if err := checkKafka(rawURL); err != nil {
			return nil, err
		}
		return opened(kafka.Open(ctx, rawURL, kafka.Config{Topics: cfg.Topics, Declare: true, InstanceID: cfg.InstanceID, Dial: cfg.Dial, Log: cfg.Logger}))
	}
	if rabbitmq.IsURL(rawURL) {
		if err := checkRabbitMQ(rawURL); err != nil {
			return nil, err
		}
		return opened(rabbitmq.Open(ctx, rawURL, rabbitmq.Config{Topics: cfg.Topics, Groups: cfg.Groups, Declare: true, Dial: cfg.Dial, Log: cfg.Logger}))
	}
	if nats.IsURL(rawURL) {
		if err := checkNATS(rawURL); err != nil {
			return nil, err
		}
		return opened(nats.Open(ctx, rawURL, nats.Config{Topics: cfg.Topics, Declare: true, Dial: cfg.Dial, Log: cfg.Logger}))
	}
	if rocketmq.IsURL(rawURL) {
		if err := checkRocketMQ(rawURL); err != nil {
			return nil, err
		}
		return opened(rocketmq.Open(ctx, rawURL, rocketmq.Config{Topics: cfg.Topics, Declare: true, Dial: cfg.Dial, Log: cfg.Logger}))
	}
	if err := checkMemory(rawURL); err != nil {
		return nil, err
	}
	return memory.New(memory.Config{Log: cfg.Logger}), nil
}

// opened returns no broker beside an error, rather than one that holds a nil
// pointer: a caller may ask whether it has one.
func opened[B settle.Broker](b B, err error) (settle.Broker, error) {
	if err != nil {
		return nil, err
	}
	return b, nil
}
