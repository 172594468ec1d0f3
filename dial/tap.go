package dial

import (
	"context"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/kafka"
	"github.com/settlemq/settle/broker/nats"
)

// BrokerTap reaches the log of a broker without anything that Publish and
// Subscribe promise. Its methods may be called from several goroutines.
type BrokerTap interface {
	// Ready returns nil if the broker answers.
	Ready(ctx context.Context) error
	// ReadAll, ReadSome and Plant are those of drill.Tap.
	ReadAll(ctx context.Context, topic string, visit func(settle.Record) error) error
	ReadSome(ctx context.Context, topic string, place float64, n int, visit func(settle.Record) error) error
	Plant(ctx context.Context, topic string, partition int, messageID string, headers map[string]string, value []byte) (settle.Coordinates, error)
	// Remove deletes a topic with all that it holds, and what the broker knows
	// of consumer groups; none of them may be at work. What is gone is left at
	// that.
	Remove(ctx context.Context, topic string, groups []string) error
	Close() error
}

// Tap reaches the log of the broker at a URL behind the toolkit's back, for
// drills and checks. It does not wait for the broker. A broker without a log
// of its own is a *URLError.
func Tap(rawURL string) (BrokerTap, error) {
	if isKafka(rawURL) {
		if err := checkKafka(rawURL); err != nil {
			return nil, err
		}
		return kafka.OpenTap(rawURL)
	}
	right := brokerURLs()[:2]
	u, err := parse("broker", rawURL, right)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "nats" {
		return nil, unknownScheme("broker", u, right)
	}
	if err := checkNATS(u); err != nil {
		return nil, err
	}
	return nats.OpenTap(rawURL)
}
