package bridge

import (
	"context"
	"time"
)

// Group is a consumer group that is not ours, and where its dead letters lie.
type Group struct {
	// Name of the consumer group. Required.
	Name string
	// Dead are the dead-letter topics (Kafka, RocketMQ) or queues (RabbitMQ) to read,
	// or the streams that the group reads (NATS). At least one.
	Dead []string
	// Retry receives what goes back to this group only: its own queue (RabbitMQ),
	// or a topic or subject that only this group reads. Defaults to none: a letter
	// can go back to its origin alone.
	Retry string
}

// Ladder is a row of waits between the attempts of a consumer that is not ours,
// with a dead-letter place at its end.
type Ladder struct {
	// Topic is where the events come from: a topic (Kafka), an exchange (RabbitMQ).
	Topic string
	// Group is the consumer group that climbs it.
	Group string
	// Queue of the group (RabbitMQ). Defaults to what the adapter names it after
	// topic and group. No other broker has one.
	Queue string
	// Steps are the waits before the second attempt, the third, and so on, at
	// least a millisecond each, at most 16. Defaults to 1 m, 5 m, 30 m.
	Steps []time.Duration
}

// DefaultSteps returns the steps of a ladder that names none.
func DefaultSteps() []time.Duration {
	return []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute}
}

// Broker is what an adapter offers to bridges; kafka.Broker and rabbitmq.Broker
// have these methods.
type Broker interface {
	// Declare makes what a ladder needs, durably, where it is missing, and
	// returns the group with the names of its places. What is there already and
	// differs is an error that says in what, and nothing of it is changed. It
	// may be called at each start.
	Declare(ctx context.Context, l Ladder) (Group, error)
	// Source returns where g's dead letters lie. It does no I/O; an error says
	// why g can't be. Sources of different groups may be used at the same time.
	Source(g Group) (Source, error)
	// Close ends the connection after calls in flight have returned or failed.
	Close() error
}
