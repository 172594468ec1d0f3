package nats

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/internal/claims"
)

const (
	firstWait = 50 * time.Millisecond
	lastWait  = 2 * time.Second
)

// Subscribe implements settle.Subscriber. Partitions are owned by lease, see
// settle.Ownership, which is required.
func (b *Broker) Subscribe(ctx context.Context, s settle.Subscription, sink settle.Sink) error {
	switch {
	case s.Group == "":
		return errors.New("subscribe: the subscription names no group")
	case len(s.Topics) == 0:
		return errors.New("subscribe: the subscription names no topic")
	case s.Ownership == nil:
		return errors.New("subscribe: JetStream assigns no partitions; the subscription needs an Ownership")
	case sink == nil:
		return errors.New("subscribe: there is no sink")
	}
	if err := b.begin(); err != nil {
		return err
	}
	defer b.calls.Done()
	if s.MaxRecords <= 0 {
		s.MaxRecords = 256
	}
	if s.MaxBytes <= 0 {
		s.MaxBytes = 1 << 20
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(b.life, func() { cancel(settle.ErrClosed) })
	defer stop()
	var topics sync.WaitGroup
	for _, name := range s.Topics {
		topics.Go(func() {
			if err := b.follow(ctx, name, s, sink); err != nil {
				cancel(err)
			}
		})
	}
	topics.Wait()
	if err := context.Cause(ctx); errors.Is(err, settle.ErrClosed) || errors.Is(err, settle.ErrNewGeneration) {
		return err
	}
	return nil
}

// follow reads one topic until ctx ends or the topic turns out to be another.
func (b *Broker) follow(ctx context.Context, name string, s settle.Subscription, sink settle.Sink) error {
	t, ok := b.awaitTopic(ctx, name)
	if !ok {
		return nil
	}
	end := &streamEnd{b: b, topic: t}
	loop := claims.Loop{Ownership: s.Ownership, Topic: t.name, Partitions: len(t.subjects), Log: b.cfg.Log.With("group", s.Group)}
	loop.Read = func(ctx context.Context, c settle.Claim) error {
		r := reader{b: b, topic: t, end: end, s: s, sink: sink, partition: c.Partition, floor: c.Floor}
		return r.run(ctx)
	}
	return loop.Run(ctx)
}

// awaitTopic waits for a topic that is missing, or a broker that is away.
func (b *Broker) awaitTopic(ctx context.Context, name string) (*topic, bool) {
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		session, err := b.link.await(ctx)
		if err != nil {
			return nil, false
		}
		asked, cancel := within(ctx, session)
		t, err := b.topic(asked, name)
		cancel()
		if err == nil {
			return t, true
		}
		b.cfg.Log.Warn("subscribe", "topic", name, "error", err)
		if !pause(ctx, wait) {
			return nil, false
		}
	}
}
