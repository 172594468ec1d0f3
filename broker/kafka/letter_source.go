package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
)

// bridgePrefix begins the names of the consumer groups that read dead letters.
const bridgePrefix = "settle-bridge."

// letterSource is where the dead letters of a group lie.
type letterSource struct {
	b *Broker
	g bridge.Group
}

// Source implements bridge.Broker. The dead letters of group G are read by the
// consumer group settle-bridge.G. g.Name is the group's id as its consumers say
// it: a letter of another group in a topic that several share does not go to
// g.Retry.
func (b *Broker) Source(g bridge.Group) (bridge.Source, error) {
	if g.Name == "" {
		return nil, errors.New("read dead letters: the group has no name")
	}
	if len(g.Dead) == 0 {
		return nil, fmt.Errorf("read dead letters of group %q: no topic is named", g.Name)
	}
	places := g.Dead
	if g.Retry != "" {
		places = append(places[:len(places):len(places)], g.Retry)
	}
	for _, name := range places {
		if why := badTopic(name); why != "" || name == "" {
			return nil, fmt.Errorf("read dead letters of group %q: topic %q: %s", g.Name, name, why)
		}
	}
	return &letterSource{b: b, g: g}, nil
}

// Letters implements bridge.Source.
func (s *letterSource) Letters(ctx context.Context, sink bridge.Sink) error {
	if err := s.b.begin(); err != nil {
		return err
	}
	defer s.b.calls.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.b.life, func() { cancel(settle.ErrClosed) })()
	err := s.follow(ctx, sink)
	switch {
	case errors.Is(context.Cause(ctx), settle.ErrClosed):
		return settle.ErrClosed
	case ctx.Err() != nil:
		return nil
	}
	return fmt.Errorf("read dead letters of group %q: %w", s.g.Name, err)
}

// follow is one membership after another until ctx is done, or the cluster says
// what waiting does not mend.
func (s *letterSource) follow(ctx context.Context, sink bridge.Sink) error {
	told := ""
	for wait := retryWait; ; wait = min(2*wait, maxLetterWait) {
		err := s.look(ctx)
		if err == nil {
			var came bool
			if came, err = s.member(ctx, sink); came {
				wait, told = retryWait, ""
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if isAny(err, kerr.UnknownTopicOrPartition, kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed, kerr.InvalidTopicException) || hopeless(err) {
			return explain(err)
		}
		if now := err.Error(); now != told && !isRebalance(err) {
			told = now
			s.b.cfg.Log.Warn("reading dead letters from Kafka fails and is tried again", "consumer_group", s.g.Name, "error", err)
		}
		if !pause(ctx, wait) {
			return ctx.Err()
		}
	}
}

// maxLetterWait is the longest wait between two memberships.
const maxLetterWait = 25 * retryWait

// isRebalance reports that partitions have moved, which is no trouble.
func isRebalance(err error) bool {
	return errors.Is(err, errMoved) || isAny(err, kerr.RebalanceInProgress, kerr.IllegalGeneration, kerr.UnknownMemberID)
}

// look fails where a topic is not there.
func (s *letterSource) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*s.b.cfg.Timeout)
	defer cancel()
	topics, err := s.b.admin.ListTopics(ctx, s.g.Dead...)
	if err != nil {
		return err
	}
	for _, name := range s.g.Dead {
		if err := topics[name].Err; err != nil {
			return fmt.Errorf("topic %q: %w", name, err)
		}
	}
	return nil
}
