package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/broker/internal/deadletter"
)

// Return implements bridge.Source. What goes to its origin goes to the subject that it
// had at first, for all who read there; what goes to its group alone goes to the
// subject Group.Retry, with where it came from at first.
func (s *letterSource) Return(ctx context.Context, r bridge.Return) error {
	m, err := s.way(r)
	if err != nil {
		return &settle.PublishError{Scope: settle.ScopeRecord, Err: settle.Permanent(fmt.Errorf("return dead letter %s: %w", r.Letter.Identity, err))}
	}
	if err := s.b.begin(); err != nil {
		return &settle.PublishError{Scope: settle.ScopeBroker, Err: err}
	}
	defer s.b.calls.Done()
	ctx, cancel := within(ctx, s.b.life)
	defer cancel()
	patience, stop := context.WithTimeout(ctx, restartWait)
	connected, err := s.b.link.await(patience)
	stop()
	if err != nil {
		return &settle.PublishError{Scope: settle.ScopeBroker, Err: fmt.Errorf("not connected: %w", err)}
	}
	asked, done := within(ctx, connected)
	defer done()
	to, err := s.taker(asked, m.Subject)
	if err != nil {
		return err
	}
	m.Header[nats.ExpectedStreamHdr] = []string{to.stream}
	// Crash here: the message may be there. It is sent again under the same id, which
	// the server knows for a while.
	if _, err := s.b.ask(asked, to, m); err != nil {
		return classify(err)
	}
	return nil
}

// way makes a letter the message that it was, with the subject of its way back.
func (s *letterSource) way(r bridge.Return) (*nats.Msg, error) {
	if !slices.Contains(s.targets(r.Letter), r.To) {
		return nil, fmt.Errorf("it can't go to %q", r.To)
	}
	m, err := unwrap(r)
	if err != nil {
		return nil, err
	}
	from := r.Letter.From
	if r.To == bridge.ToOrigin {
		m.Subject = from.RoutingKey
		return m, nil
	}
	m.Subject = s.g.Retry
	if from.RoutingKey != "" {
		m.Header[deadletter.HeaderOrigin] = []string{deadletter.Origin{Topic: from.Topic, Partition: from.Partition, Offset: from.Offset, RoutingKey: from.RoutingKey}.String()}
	}
	return m, nil
}

// taker finds the stream that stores what is published to a subject.
func (s *letterSource) taker(ctx context.Context, subject string) (*topic, error) {
	ctx, cancel := context.WithTimeout(ctx, s.b.cfg.Timeout)
	defer cancel()
	stream, err := s.b.js.StreamNameBySubject(ctx, subject)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, unfit(fmt.Sprintf("no stream takes subject %q", subject))
	}
	if err != nil {
		return nil, classify(because(ctx, err))
	}
	return &topic{name: subject, stream: stream, copies: s.b.cfg.Replicas}, nil
}
