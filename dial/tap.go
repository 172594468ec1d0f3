package dial

import (
	"context"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/kafka"
	"github.com/settlemq/settle/broker/nats"
	"github.com/settlemq/settle/broker/rabbitmq"
	"github.com/settlemq/settle/broker/rocketmq"
)

// BrokerTap reaches the log of a broker without anything that Publish and
// Subscribe promise. Its methods may be called from several goroutines.
type BrokerTap interface {
	// Ready returns nil if the broker answers.
	Ready(ctx context.Context) error
	// Keep makes the topic and what consumer groups need of it, and has the broker
	// keep what comes from now on, where it does not by itself. Forget ends that
	// and removes what was kept; a topic's own log stays.
	Keep(ctx context.Context, topic string, groups []string) error
	Forget(ctx context.Context, topic string) error
	// Places reports whether what a publisher is told is where the event stands in
	// the log.
	Places() bool
	// ReadAll, ReadSome and Plant are those of drill.Tap.
	ReadAll(ctx context.Context, topic string, visit func(settle.Record) error) error
	ReadSome(ctx context.Context, topic string, place float64, n int, visit func(settle.Record) error) error
	Plant(ctx context.Context, topic string, partition int, messageID string, headers map[string]string, value []byte) (settle.Coordinates, error)
	// Leads returns how many partitions of a topic, or queues of its groups, each
	// node of a cluster leads that is there, by its host:port, and whether all of
	// them have all their copies. RabbitMQ is asked by the nodes' management APIs,
	// NATS by their monitors, whose URLs admins holds by host:port.
	Leads(ctx context.Context, topic string, admins map[string]string) (leads map[string]int, whole bool, err error)
	// Remove deletes a topic with all that it holds, and what the broker knows
	// of consumer groups; none of them may be at work. What is gone is left at
	// that.
	Remove(ctx context.Context, topic string, groups []string) error
	Close() error
}

// Tap reaches the log of the broker at a URL behind the toolkit's back, for
// drills and checks. It does not wait for the broker. One that has nothing of
// the kind is a *URLError.
func Tap(rawURL string) (BrokerTap, error) {
	if isKafka(rawURL) {
		if err := checkKafka(rawURL); err != nil {
			return nil, err
		}
		return kafka.OpenTap(rawURL)
	}
	if rabbitmq.IsURL(rawURL) {
		if err := checkRabbitMQ(rawURL); err != nil {
			return nil, err
		}
		return rabbitmq.OpenTap(rawURL)
	}
	if rocketmq.IsURL(rawURL) {
		if err := checkRocketMQ(rawURL); err != nil {
			return nil, err
		}
		return rocketmq.OpenTap(rawURL)
	}
	right := brokerURLs()[:4]
	if !nats.IsURL(rawURL) {
		u, err := parse("broker", rawURL, right)
		if err != nil {
			return nil, err
		}
		return nil, unknownScheme("broker", u, right)
	}
	if err := checkNATS(rawURL); err != nil {
		return nil, err
	}
	return nats.OpenTap(rawURL)
}
