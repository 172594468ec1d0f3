package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
)

// letterPrefetch is how many letters of each queue are in hand at a time. They
// may be as large as what the broker takes.
const letterPrefetch = 32

// letterSource is where the dead letters of a group lie.
type letterSource struct {
	b *Broker
	g bridge.Group
}

// Source implements bridge.Broker. g.Retry is a queue, or TOPIC.GROUP of a group
// of Settle's own: what goes back to it then goes to the partition that it came
// from.
func (b *Broker) Source(g bridge.Group) (bridge.Source, error) {
	if g.Name == "" {
		return nil, errors.New("read dead letters: the group has no name")
	}
	if len(g.Dead) == 0 {
		return nil, fmt.Errorf("read dead letters of group %q: no queue is named", g.Name)
	}
	for _, name := range append(slices.Clone(g.Dead), g.Retry) {
		if why := badQueue(name); why != "" && (name != "" || slices.Contains(g.Dead, name)) {
			return nil, fmt.Errorf("read dead letters of group %q: %s", g.Name, why)
		}
	}
	return &letterSource{b: b, g: g}, nil
}

// badQueue says why there can't be a queue of somebody else's with this name.
func badQueue(name string) string {
	if name == "" {
		return "a queue has a name"
	}
	if len(name) > 255 {
		return fmt.Sprintf("a queue of RabbitMQ has at most 255 bytes, %q has %d", name, len(name))
	}
	return ""
}

// Letters implements bridge.Source.
func (s *letterSource) Letters(ctx context.Context, sink bridge.Sink) error {
	if err := s.b.begin(); err != nil {
		return err
	}
	defer s.b.calls.Done()
	ctx, cancel := s.b.living(ctx)
	defer cancel()
	s.b.read()
	err := s.follow(ctx, sink)
	switch {
	case errors.Is(context.Cause(ctx), settle.ErrClosed):
		return settle.ErrClosed
	case ctx.Err() != nil:
		return nil
	}
	return fmt.Errorf("read dead letters of group %q: %w", s.g.Name, err)
}

// follow reads on one connection after another until ctx is done, or the broker
// refuses what waiting does not mend.
func (s *letterSource) follow(ctx context.Context, sink bridge.Sink) error {
	troubled := ""
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		on, err := s.b.consuming.await(ctx)
		if err != nil {
			return err
		}
		r := newLetterReader(s, on, sink)
		err = r.run(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch code(err) {
		case amqp.NotFound, amqp.AccessRefused, amqp.PreconditionFailed, amqp.ResourceLocked, amqp.NotAllowed:
			return explain(err)
		}
		if r.came || errors.Is(err, errSilent) {
			wait, troubled = firstWait, ""
		}
		if errors.Is(err, errSilent) {
			continue
		}
		if now := err.Error(); now != troubled && !on.conn.IsClosed() { // its end is told of the connection
			troubled = now
			s.b.cfg.Log.Warn("reading dead letters from RabbitMQ fails and is tried again", "consumer_group", s.g.Name, "error", err)
		}
		if !pause(ctx, wait) {
			return ctx.Err()
		}
	}
}
