package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
)

// Arguments of what is declared, as RabbitMQ names them.
const (
	kindHash   = "x-consistent-hash"
	hashHeader = "hash-header"
	// weight is that of a queue among those of its group.
	weight = "1"
)

// groupName is the exchange that deals out a topic's events to the queues of
// one group.
func groupName(topic, group string) string { return topic + "." + group }

// queueName is that of a partition.
func queueName(topic, group string, n int) string {
	return groupName(topic, group) + "." + strconv.Itoa(n)
}

// deadName is the queue of what was delivered too often.
func deadName(topic, group string) string { return groupName(topic, group) + ".dead" }

// membersName is a queue that stays empty: its consumers are the members.
func membersName(topic, group string) string { return groupName(topic, group) + ".members" }

// ownerName is a queue that is a lock: it belongs to the connection that made
// it, ends with it, and no other can make it meanwhile.
func ownerName(queue string) string { return queue + ".owner" }

// ready makes a topic on its first use, where that is asked for. An error is
// a *settle.PublishError.
func (b *Broker) ready(s *session, topic string) error {
	b.mu.Lock()
	done := b.declared[topic] || !b.cfg.Declare
	b.mu.Unlock()
	if done {
		return nil
	}
	if err := b.declare(s, topic, b.cfg.Groups); err != nil {
		return classify(err)
	}
	return nil
}

// declare makes a topic and the queues of groups.
func (b *Broker) declare(s *session, topic string, groups []string) error {
	if why := badName("topic", topic); why != "" {
		return noTopic(topic, why)
	}
	if err := b.alone(s, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(topic, b.cfg.Kind, true, false, false, false, nil)
	}); err != nil {
		return fmt.Errorf("declare topic %q: %w", topic, classify(err))
	}
	for _, group := range groups {
		if err := b.declareGroup(s, topic, group); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.declared[topic] = true
	return nil
}

// forget makes the next use declare the topic again.
func (b *Broker) forget(topic string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.declared, topic)
}

// alone runs requests on a channel of their own: the broker closes the channel
// of one that it refuses.
func (b *Broker) alone(s *session, requests func(ch *amqp.Channel) error) error {
	ch, err := s.channel(requests)
	if err != nil {
		return err
	}
	return s.within(ch.Close)
}

// declareGroup makes the queues of a group, and lets events into them when all
// are there: a key would change queues if they came one by one.
func (b *Broker) declareGroup(s *session, topic, group string) error {
	if why := badName("group", group); why != "" {
		return &settle.PublishError{Scope: settle.ScopeTopic, Err: errors.New(why)}
	}
	if err := b.notMore(s, topic, group); err != nil {
		return err
	}
	inner := groupName(topic, group)
	err := b.alone(s, func(ch *amqp.Channel) error {
		if err := ch.ExchangeDeclare(inner, kindHash, true, false, false, false, amqp.Table{hashHeader: settle.HeaderAggregateID}); err != nil {
			return err
		}
		if _, err := ch.QueueDeclare(deadName(topic, group), true, false, false, false, resting()); err != nil {
			return err
		}
		_, err := ch.QueueDeclare(membersName(topic, group), true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
		return err
	})
	for n := 0; n < b.cfg.Partitions && err == nil; n++ {
		err = b.declarePartition(s, topic, group, n)
	}
	if err == nil {
		err = b.alone(s, func(ch *amqp.Channel) error { return ch.ExchangeBind(inner, "#", topic, false, nil) })
	}
	if err != nil {
		return fmt.Errorf("declare group %q of topic %q: %w", group, topic, classify(err))
	}
	return nil
}

// declarePartition makes a queue and binds it. A queue that was deleted under
// its consumer is made again by whoever holds its lock, and that is its
// consumer's member: RabbitMQ 3 lets a channel that hears of the deletion late
// consume from the new queue of the name, does not tell it, and loses what it
// sends it.
func (b *Broker) declarePartition(s *session, topic, group string, n int) error {
	queue := queueName(topic, group, n)
	declare := func(ch *amqp.Channel) error {
		if _, err := ch.QueueDeclare(queue, true, false, false, false, b.arguments(topic, group)); err != nil {
			return err
		}
		return ch.QueueBind(queue, weight, groupName(topic, group), false, nil)
	}
	there, err := b.isThere(s, queue)
	if err != nil {
		return err
	}
	if there {
		return b.alone(s, declare)
	}
	locked, err := b.lock(s, queue)
	if !locked {
		return err // its owner makes it
	}
	defer b.unlock(s, queue)
	return b.alone(s, declare)
}

func (b *Broker) isThere(s *session, queue string) (bool, error) {
	err := b.alone(s, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		return err
	})
	switch {
	case code(err) == amqp.NotFound:
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for queue %q: %w", queue, classify(err))
	}
	return true, nil
}

// arguments of a partition's queue. What was delivered too often goes to the
// group's dead ones, and stays where it is until they have it.
func (b *Broker) arguments(topic, group string) amqp.Table {
	return amqp.Table{
		"x-queue-type":              "quorum",
		"x-single-active-consumer":  true,
		"x-delivery-limit":          int64(b.cfg.DeliveryLimit),
		"x-dead-letter-exchange":    "",
		"x-dead-letter-routing-key": deadName(topic, group),
		"x-dead-letter-strategy":    "at-least-once",
		"x-overflow":                "reject-publish",
	}
}

// notMore refuses fewer partitions than there are: nobody would read the
// others, and events would go on coming into them.
func (b *Broker) notMore(s *session, topic, group string) error {
	name := queueName(topic, group, b.cfg.Partitions)
	if there, err := b.isThere(s, name); !there {
		return err
	}
	return &settle.PublishError{Scope: settle.ScopeTopic, Err: fmt.Errorf("group %q of topic %q has more queues than the %d declared: there is %q, and nobody would read it", group, topic, b.cfg.Partitions, name)}
}

// subscribable makes what a group needs to read a topic.
func (b *Broker) subscribable(s *session, topic, group string) error {
	if b.cfg.Declare || slices.Contains(b.cfg.Topics, topic) {
		return b.declare(s, topic, []string{group})
	}
	return b.declareGroup(s, topic, group)
}

// declareAll makes what Config names.
func (b *Broker) declareAll(ctx context.Context, s *session) error {
	defer context.AfterFunc(ctx, func() { _ = s.wire.Close() })()
	for _, topic := range b.cfg.Topics {
		if err := b.declare(s, topic, b.cfg.Groups); err != nil {
			return err
		}
	}
	return nil
}

// noTopic is the error of an event whose topic can't be one of RabbitMQ's: no
// waiting makes it one, so it is the event's own, and others go on.
func noTopic(name, why string) error {
	return &settle.PublishError{Scope: settle.ScopeRecord, Err: settle.Permanent(fmt.Errorf("topic %q can't be: %s", name, why))}
}

// badName says why a topic, group or queue can't be part of RabbitMQ's names,
// which have 255 bytes, and here a topic, a group and ".members", or a queue and
// ".retry.steps".
func badName(what, name string) string {
	limit := map[string]int{"topic": 127, "group": 100, "queue": 240}[what]
	switch {
	case name == "":
		return "a " + what + " has a name"
	case len(name) > limit:
		return fmt.Sprintf("a %s of RabbitMQ has at most %d bytes, %q has %d", what, limit, name, len(name))
	case strings.HasPrefix(name, "amq."):
		return fmt.Sprintf("names that begin with amq. are RabbitMQ's own: %q", name)
	}
	for _, c := range name {
		if c <= ' ' || c == 0x7f {
			return fmt.Sprintf("a %s of RabbitMQ has no spaces and no control characters: %q", what, name)
		}
	}
	return ""
}
