package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/cloudevents"
	"github.com/settlemq/settle/broker/internal/claims"
	"github.com/settlemq/settle/broker/rocketmq/remoting"
)

const (
	firstWait = 50 * time.Millisecond
	lastWait  = 2 * time.Second
	// defaultRecords and defaultBytes bound a delivery.
	defaultRecords, defaultBytes = 256, 1 << 20
)

// Subscribe implements settle.Subscriber. Queues are owned by lease, see
// settle.Ownership, which is required; partition n is the n-th of the topic's list
// of queues, and position p the record at offset p-1. A new group begins at the
// earliest record.
func (b *Broker) Subscribe(ctx context.Context, s settle.Subscription, sink settle.Sink) error {
	if err := checkSubscription(s, sink); err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	if err := b.begin(); err != nil {
		return err
	}
	defer b.calls.Done()
	if s.MaxRecords <= 0 {
		s.MaxRecords = defaultRecords
	}
	if s.MaxBytes <= 0 {
		s.MaxBytes = defaultBytes
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

func checkSubscription(s settle.Subscription, sink settle.Sink) error {
	if why := badGroup(s.Group); why != "" {
		return errors.New(why)
	}
	for _, name := range s.Topics {
		if why := badTopic(name); why != "" {
			return errors.New(why)
		}
	}
	switch {
	case len(s.Topics) == 0:
		return errors.New("the subscription names no topic")
	case s.Ownership == nil:
		return errors.New("queues of RocketMQ are leased from the group's database; the subscription needs an Ownership")
	case sink == nil:
		return errors.New("there is no sink")
	}
	return nil
}

// follow reads one topic until ctx ends or the topic turns out to be another. When
// it gets more queues the claims begin anew, with all of them.
func (b *Broker) follow(ctx context.Context, name string, s settle.Subscription, sink settle.Sink) error {
	for ctx.Err() == nil {
		r, ok := b.awaitTopic(ctx, name)
		if !ok {
			return nil
		}
		n := len(r.queues)
		these, cancel := context.WithCancel(ctx)
		var watching sync.WaitGroup
		watching.Go(func() {
			defer cancel()
			b.awaitMore(these, name, n)
		})
		loop := claims.Loop{Ownership: s.Ownership, Topic: name, Partitions: n, Log: b.cfg.Log.With("group", s.Group)}
		loop.Read = func(ctx context.Context, c settle.Claim) error {
			r := reader{b: b, topic: name, queue: r.queues[c.Partition.Number], s: s, sink: sink, partition: c.Partition, floor: c.Floor}
			return r.run(ctx)
		}
		err := loop.Run(these)
		cancel()
		watching.Wait()
		if err != nil {
			return err
		}
	}
	return nil
}

// awaitTopic waits for a topic that is missing, or name servers that are away.
func (b *Broker) awaitTopic(ctx context.Context, name string) (*route, bool) {
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		r, err := b.topic(ctx, name)
		if err == nil && len(r.queues) > 0 {
			return r, true
		}
		if ctx.Err() != nil {
			return nil, false
		}
		b.cfg.Log.Warn("subscribe", "topic", name, "error", err)
		if !pause(ctx, wait) {
			return nil, false
		}
	}
}

// awaitMore waits until a topic has more than n queues.
func (b *Broker) awaitMore(ctx context.Context, name string, n int) {
	for ctx.Err() == nil {
		changed := b.routes.change()
		if r := b.routes.get(name); r != nil && len(r.queues) > n {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// record turns a message into a record.
func record(topic string, partition int, m remoting.Message) settle.Record {
	properties := decodeProperties(m.Properties)
	r := settle.Record{
		Position: m.Offset + 1, Raw: m.Body, Headers: headersOf(properties), Key: keyOf(properties), RecordedAt: m.StoredAt.UTC(),
		At: settle.Coordinates{Topic: topic, Partition: partition, Offset: m.Offset},
	}
	if r.DecodeErr = m.BodyErr; r.DecodeErr != nil {
		return r
	}
	if cloudevents.RocketMQ.Read(&r, ""); r.Event != nil {
		r.Key, r.Event.Topic = r.Event.Key(), topic
	}
	return r
}
