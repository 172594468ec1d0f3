package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle/bridge"
)

const (
	maxSteps = 16
	// maxStep is the longest time to live that RabbitMQ takes.
	maxStep = (1<<32 - 1) * time.Millisecond
)

// ladder names what a ladder is made of. The step that a message has waited in
// rides in its routing key: RabbitMQ itself routes what is rejected by key and
// counts nothing.
type ladder struct {
	topic, queue string
	steps        []time.Duration
	// bound says that the queue is named by us and gets all of the topic.
	bound bool
}

func ladderOf(l bridge.Ladder) (ladder, error) {
	n := ladder{topic: l.Topic, queue: l.Queue, steps: l.Steps}
	if why := badName("group", l.Group); why != "" {
		return n, errors.New(why)
	}
	if why := badName("topic", l.Topic); why != "" {
		return n, errors.New(why)
	}
	if n.queue == "" {
		n.queue, n.bound = groupName(l.Topic, l.Group), true
	}
	if why := badName("queue", n.queue); why != "" {
		return n, errors.New(why)
	}
	if len(n.steps) == 0 {
		n.steps = bridge.DefaultSteps()
	}
	if len(n.steps) > maxSteps {
		return n, fmt.Errorf("a ladder has at most %d steps, not %d", maxSteps, len(n.steps))
	}
	for _, wait := range n.steps {
		if wait < time.Millisecond || wait > maxStep {
			return n, fmt.Errorf("a step of a ladder lasts from 1ms to %s, not %s", maxStep, wait)
		}
	}
	return n, nil
}

// rejected is the dead-letter exchange of the queue. What was delivered too
// often leaves it for the dead ones: it has been tried without a pause already,
// and RabbitMQ would take its way through a step and back for a circle that
// nobody has rejected it in, and not let it back.
func (l ladder) rejected() string { return l.queue + ".retry" }

// choice sends on by the last step, first what has none behind it.
func (l ladder) choice() string { return l.queue + ".retry.steps" }
func (l ladder) first() string  { return l.queue + ".retry.first" }

// back leads from the steps to the queue.
func (l ladder) back() string { return l.queue + ".back" }
func (l ladder) dead() string { return l.queue + ".dead" }

// step is the queue of the n-th wait, from 1 on, and the routing key of what
// has waited in it.
func (l ladder) step(n int) string { return l.rejected() + "." + strconv.Itoa(n) }

// Declare implements bridge.Broker. The queue of a group that names none gets
// all of the topic; one that is named is bound by whoever reads it. It blocks
// while the broker is away, until ctx is done.
func (b *Broker) Declare(ctx context.Context, spec bridge.Ladder) (bridge.Group, error) {
	l, err := ladderOf(spec)
	if err == nil {
		err = b.climbable(ctx, l)
	}
	if err != nil {
		return bridge.Group{}, fmt.Errorf("declare the ladder of group %q: %w", spec.Group, err)
	}
	return bridge.Group{Name: spec.Group, Dead: []string{l.dead()}, Retry: l.queue}, nil
}

func (b *Broker) climbable(ctx context.Context, l ladder) error {
	if err := b.begin(); err != nil {
		return err
	}
	defer b.calls.Done()
	ctx, cancel := b.living(ctx)
	defer cancel()
	b.read() // the other connection answers nothing while an alarm lasts
	s, err := b.consuming.await(ctx)
	if err != nil {
		return err
	}
	if b.cfg.Declare || slices.Contains(b.cfg.Topics, l.topic) {
		if err := b.declare(s, l.topic, b.cfg.Groups); err != nil {
			return err
		}
	}
	if err := b.sameSteps(s, l); err != nil {
		return err
	}
	if err := b.alone(s, func(ch *amqp.Channel) error { return b.build(ch, l) }); err != nil {
		return classify(err)
	}
	return nil
}

// sameSteps refuses another number of steps than there are: who has left the
// last one would go both to the next and to the dead ones, by what is bound.
func (b *Broker) sameSteps(s *session, l ladder) error {
	n := len(l.steps)
	more, err := b.isThere(s, l.step(n+1))
	if err != nil {
		return err
	}
	first, err := b.isThere(s, l.step(1))
	if err != nil {
		return err
	}
	last, err := b.isThere(s, l.step(n))
	if err != nil {
		return err
	}
	if !more && (last || !first) {
		return nil
	}
	return fmt.Errorf("queue %q has a ladder of another number of steps than the %d declared; to change it, let the queues %q and so on run empty, delete them and the exchange %q, and declare again",
		l.queue, n, l.step(1), l.choice())
}

// build makes all of a ladder, from its end to its beginning: nothing comes to
// where it can't go on. The last step is there first, so that one whose making
// was interrupted is known from one of another number of steps.
func (b *Broker) build(ch *amqp.Channel, l ladder) error {
	if _, err := ch.QueueDeclare(l.dead(), true, false, false, false, resting()); err != nil {
		return err
	}
	for n := len(l.steps); n > 0; n-- {
		if _, err := ch.QueueDeclare(l.step(n), true, false, false, false, l.waiting(n)); err != nil {
			return err
		}
	}
	if err := l.route(ch); err != nil {
		return err
	}
	if _, err := ch.QueueDeclare(l.queue, true, false, false, false, b.climbing(l)); err != nil {
		return err
	}
	if err := ch.QueueBind(l.queue, "", l.back(), false, nil); err != nil || !l.bound {
		return err
	}
	return ch.QueueBind(l.queue, "#", l.topic, false, nil)
}

// route makes the exchanges, and binds the steps and the dead ones to them.
func (l ladder) route(ch *amqp.Channel) error {
	for _, e := range []struct{ name, kind, otherwise string }{
		{l.first(), "fanout", ""}, {l.choice(), "direct", l.first()}, {l.rejected(), "headers", l.choice()}, {l.back(), "fanout", ""},
	} {
		args := amqp.Table{}
		if e.otherwise != "" {
			args["alternate-exchange"] = e.otherwise
		}
		if err := ch.ExchangeDeclare(e.name, e.kind, true, false, false, false, args); err != nil {
			return err
		}
	}
	// The first death is told by all versions, the last one from 3.13 on.
	limit := amqp.Table{"x-match": "any-with-x", "x-first-death-reason": reasonLimit, "x-last-death-reason": reasonLimit}
	if err := ch.QueueBind(l.dead(), "", l.rejected(), false, limit); err != nil {
		return err
	}
	if err := ch.QueueBind(l.step(1), "", l.first(), false, nil); err != nil {
		return err
	}
	for n := 1; n < len(l.steps); n++ {
		if err := ch.QueueBind(l.step(n+1), l.step(n), l.choice(), false, nil); err != nil {
			return err
		}
	}
	return ch.QueueBind(l.dead(), l.step(len(l.steps)), l.choice(), false, nil)
}

// resting are the arguments of what keeps dead letters. RabbitMQ 4 drops what
// was in somebody's hands 20 times, where nothing is said.
func resting() amqp.Table {
	return amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int64(1_000_000_000)}
}

// waiting are the arguments of a step. All that wait there wait equally long,
// so that none stands before one whose time has come.
func (l ladder) waiting(n int) amqp.Table {
	return amqp.Table{
		"x-queue-type":              "quorum",
		"x-message-ttl":             l.steps[n-1].Milliseconds(),
		"x-dead-letter-exchange":    l.back(),
		"x-dead-letter-routing-key": l.step(n),
		"x-dead-letter-strategy":    "at-least-once",
		"x-overflow":                "reject-publish",
	}
}

// climbing are the arguments of the group's queue.
func (b *Broker) climbing(l ladder) amqp.Table {
	return amqp.Table{
		"x-queue-type":           "quorum",
		"x-delivery-limit":       int64(b.cfg.DeliveryLimit),
		"x-dead-letter-exchange": l.rejected(),
		"x-dead-letter-strategy": "at-least-once",
		"x-overflow":             "reject-publish",
	}
}
