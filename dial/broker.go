package dial

import (
	"context"
	"log/slog"
	"net"
	"net/url"
	"strings"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/kafka"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/broker/nats"
	"github.com/settlemq/settle/broker/rabbitmq"
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
	// Dial makes the connections to Kafka and RabbitMQ, for tests that stand
	// between. Other brokers do without. Defaults to TCP.
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
	}
	_, err := brokerURL(rawURL)
	return err
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

func brokerURL(rawURL string) (*url.URL, error) {
	u, err := parse("broker", rawURL, brokerURLs())
	if err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "memory":
		return u, nil
	case "nats":
		return u, checkNATS(u)
	}
	return nil, unknownScheme("broker", u, brokerURLs())
}

// Broker connects to the broker at a URL. It blocks until the broker answers,
// about 10 s at most, or until ctx is done. A URL that can't be is a
// *URLError; any other error means that the broker did not answer.
func Broker(ctx context.Context, rawURL string, cfg BrokerConfig) (settle.Broker, error) {
	if isKafka(rawURL) {
		if err := checkKafka(rawURL); err != nil {
			return nil, err
		}
		return kafka.Open(ctx, rawURL, kafka.Config{Topics: cfg.Topics, Declare: true, InstanceID: cfg.InstanceID, Dial: cfg.Dial, Log: cfg.Logger})
	}
	if rabbitmq.IsURL(rawURL) {
		if err := checkRabbitMQ(rawURL); err != nil {
			return nil, err
		}
		return rabbitmq.Open(ctx, rawURL, rabbitmq.Config{Topics: cfg.Topics, Groups: cfg.Groups, Declare: true, Dial: cfg.Dial, Log: cfg.Logger})
	}
	u, err := brokerURL(rawURL)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "memory" {
		return memory.New(memory.Config{Log: cfg.Logger}), nil
	}
	return nats.Open(ctx, rawURL, nats.Config{Topics: cfg.Topics, Declare: true, Log: cfg.Logger})
}

func checkNATS(u *url.URL) error {
	wrong := func(word, reason string) error {
		return &URLError{Kind: "broker", Wrong: word, Reason: reason, Right: brokerURLs()[:1]}
	}
	switch {
	case u.Hostname() == "":
		return wrong(u.Host, "there is no host in")
	case u.Port() == "":
		return wrong(u.Host, "there is no port in")
	case u.User.Username() == "":
		return wrong(u.Host, "there is no token before")
	case u.Path != "" && u.Path != "/":
		return wrong(u.Path, "there is a path,")
	}
	return nil
}
