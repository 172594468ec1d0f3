package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/settlemq/settle/bridge"
)

const (
	maxSteps = 16
	// maxReturned bounds how many messages that went back to a group its own stream
	// keeps; more are refused.
	maxReturned = 1_000_000
)

// Declare implements bridge.Broker. The ladder's group is a durable consumer of the
// topic's stream, whose backoff are the steps; it and the stream of what goes back to
// the group alone, with a consumer of the same name, are made where they are missing,
// and so is what keeps the server's word of messages that were given up.
func (b *Broker) Declare(ctx context.Context, l bridge.Ladder) (bridge.Group, error) {
	g, err := b.climbable(ctx, l)
	if err != nil {
		return bridge.Group{}, fmt.Errorf("declare the ladder of group %q: %w", l.Group, err)
	}
	return g, nil
}

func (b *Broker) climbable(ctx context.Context, l bridge.Ladder) (bridge.Group, error) {
	switch why := badName("consumer", l.Group); {
	case why != "":
		return bridge.Group{}, errors.New(why)
	case l.Topic == "":
		return bridge.Group{}, errors.New("no topic is named")
	case badSubject(l.Topic) != "":
		return bridge.Group{}, errors.New(badSubject(l.Topic))
	case l.Queue != "":
		return bridge.Group{}, fmt.Errorf("a queue is named, %q; on JetStream a group is a durable consumer of its topic's stream", l.Queue)
	case len(l.Steps) > maxSteps:
		return bridge.Group{}, fmt.Errorf("a ladder has at most %d steps, not %d", maxSteps, len(l.Steps))
	}
	if err := b.begin(); err != nil {
		return bridge.Group{}, err
	}
	defer b.calls.Done()
	ctx, cancel := within(ctx, b.life)
	defer cancel()
	stream := StreamName(l.Topic)
	_, err := b.js.Stream(ctx, stream) // which may be one that was not made for Settle
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = b.topic(ctx, l.Topic)
	}
	if err != nil {
		return bridge.Group{}, fmt.Errorf("stream %q: %w", stream, err)
	}
	own, subject, err := b.returned(ctx, stream, l.Group)
	if err != nil {
		return bridge.Group{}, err
	}
	for _, name := range []string{stream, own} {
		// The capture comes first: what the consumer gives up from then on is known.
		if _, err := b.capture(ctx, name, l.Group); err != nil {
			return bridge.Group{}, err
		}
		if err := b.rungs(ctx, name, l); err != nil {
			return bridge.Group{}, err
		}
	}
	return bridge.Group{Name: l.Group, Dead: []string{stream, own}, Retry: subject}, nil
}

// returned makes the stream of what goes back to a group alone.
func (b *Broker) returned(ctx context.Context, stream, group string) (name, subject string, err error) {
	name, subject = "settle-retry-"+stream+"-"+group, "settle.retry."+stream+"."+group
	have, err := b.ensureStream(ctx, jetstream.StreamConfig{
		Name:        name,
		Description: "Settle: what goes back to consumer " + group + " of stream " + stream + " alone",
		Subjects:    []string{subject},
		Retention:   jetstream.LimitsPolicy,
		Discard:     jetstream.DiscardNew,
		Storage:     jetstream.FileStorage,
		Replicas:    b.cfg.Replicas,
		MaxMsgs:     maxReturned,
		MaxAge:      b.cfg.KeepFor,
		Duplicates:  min(dupWindow, b.cfg.KeepFor),
	})
	if err == nil && !slices.Equal(have.Config.Subjects, []string{subject}) {
		err = unfit(fmt.Sprintf("stream %q exists and its subjects are %q, not %q", name, have.Config.Subjects, subject))
	}
	return name, subject, err
}

// rungs makes a group's consumer, or looks whether it is the ladder's.
func (b *Broker) rungs(ctx context.Context, stream string, l bridge.Ladder) error {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	want := consumerOf(l)
	have, err := b.js.Consumer(ctx, stream, l.Group)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		have, err = b.js.CreateConsumer(ctx, stream, want)
		if errors.Is(err, jetstream.ErrConsumerExists) { // another process was quicker
			have, err = b.js.Consumer(ctx, stream, l.Group)
		}
	}
	if err != nil {
		return fmt.Errorf("consumer %q of stream %q: %w", l.Group, stream, err)
	}
	if why := unlike(have.CachedInfo().Config, want); why != "" {
		return unfit(fmt.Sprintf("consumer %q of stream %q exists and differs: %s; nats consumer edit %s %s, or say other steps", l.Group, stream, why, stream, l.Group))
	}
	return nil
}

// consumerOf is a ladder as the server has it. The wait after the last attempt is the
// last step again: so long its consumer has before it counts as given up.
func consumerOf(l bridge.Ladder) jetstream.ConsumerConfig {
	steps := l.Steps
	if len(steps) == 0 {
		steps = bridge.DefaultSteps()
	}
	return jetstream.ConsumerConfig{
		Name:          l.Group,
		Durable:       l.Group,
		Description:   "Settle: a ladder of " + fmt.Sprint(steps),
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		BackOff:       steps,
		MaxDeliver:    len(steps) + 1,
	}
}

// unlike names the first argument by which a consumer climbs another ladder.
func unlike(have, want jetstream.ConsumerConfig) string {
	switch {
	case have.AckPolicy != want.AckPolicy:
		return fmt.Sprintf("its ack_policy is %s, not %s", have.AckPolicy, want.AckPolicy)
	case have.MaxDeliver != want.MaxDeliver:
		return fmt.Sprintf("its max_deliver is %d, not %d: one more than there are steps", have.MaxDeliver, want.MaxDeliver)
	case !slices.Equal(have.BackOff, want.BackOff):
		return fmt.Sprintf("its backoff is %v, not %v", have.BackOff, want.BackOff)
	case have.Durable == "":
		return "it is not durable"
	}
	return ""
}
