package rocketmq

import (
	"context"
	"fmt"
	"slices"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/broker/rocketmq/remoting"
)

// Return implements bridge.Source. What goes to its origin goes to the queue of its
// key; what goes to its group alone is in its retry topic, whose order nobody counts
// on, in a queue of a node that is there.
func (s *letterSource) Return(ctx context.Context, r bridge.Return) error {
	m, topic, err := s.way(r)
	if err != nil {
		return &settle.PublishError{Scope: settle.ScopeRecord, Err: settle.Permanent(fmt.Errorf("return dead letter %s: %w", r.Letter.Identity, err))}
	}
	if err := s.b.begin(); err != nil {
		return &settle.PublishError{Scope: settle.ScopeBroker, Err: err}
	}
	defer s.b.calls.Done()
	ctx, cancel := s.b.living(ctx)
	defer cancel()
	known, err := s.b.routes.of(ctx, topic)
	if err != nil {
		return classify(err)
	}
	q, addr, err := s.destination(known, r)
	if err != nil {
		return err
	}
	ctx, done := context.WithTimeout(ctx, s.b.cfg.Timeout)
	defer done()
	// Crash here: the message may be there. It is sent again under the same id.
	_, err = s.b.wire.Send(ctx, addr, remoting.Sending{Group: s.b.cfg.Name, Topic: topic, Broker: q.broker, Queue: q.id, Messages: []remoting.Outgoing{m}})
	if err != nil {
		s.b.routes.doubt()
		return classify(err)
	}
	return nil
}

// way finds the topic of a letter's way back, and makes it the message that it was.
func (s *letterSource) way(r bridge.Return) (m remoting.Outgoing, topic string, err error) {
	if !slices.Contains(s.targets(r.Letter), r.To) {
		return m, "", fmt.Errorf("it can't go to %q", r.To)
	}
	if r.To == bridge.ToOrigin {
		m, err = unwrap(r, "")
		return m, r.Letter.From.Topic, err
	}
	m, err = unwrap(r, r.Letter.From.Topic)
	return m, s.g.Retry, err
}

// destination is the queue that a letter goes to, and where that is.
func (s *letterSource) destination(known *route, r bridge.Return) (queue, string, error) {
	if len(known.queues) == 0 {
		return queue{}, "", unfit(fmt.Sprintf("topic %q has no queues", known.topic))
	}
	if r.To == bridge.ToOrigin {
		q := known.queues[known.partitionOf(r.Letter.Record.Key)]
		addr, is := known.master(q)
		if !is {
			return q, "", &settle.PublishError{Scope: settle.ScopeBroker, Err: fmt.Errorf("the name servers know no master of broker %q, where its key's queue is", q.broker)}
		}
		return q, addr, nil
	}
	from := settle.PartitionOf(r.Letter.Record.Key, len(known.queues))
	for i := range known.queues {
		q := known.queues[(from+i)%len(known.queues)]
		if addr, is := known.master(q); is {
			return q, addr, nil
		}
	}
	return queue{}, "", &settle.PublishError{Scope: settle.ScopeBroker, Err: fmt.Errorf("the name servers know no master that has topic %q", known.topic)}
}
