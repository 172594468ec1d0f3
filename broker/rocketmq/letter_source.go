package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/broker/rocketmq/remoting"
)

// bridgePrefix begins the names of the consumer groups that read dead letters.
const bridgePrefix = "settle-bridge-"

// letterSource is where the dead letters of a group lie.
type letterSource struct {
	b *Broker
	g bridge.Group
}

// Source implements bridge.Broker. How far the dead letters of group G were read is
// kept by the brokers as the position of consumer group settle-bridge-G.
func (b *Broker) Source(g bridge.Group) (bridge.Source, error) {
	if why := badGroup(bridgePrefix + g.Name); why != "" || g.Name == "" {
		return nil, fmt.Errorf("read dead letters of group %q: %s", g.Name, why)
	}
	if len(g.Dead) == 0 {
		return nil, fmt.Errorf("read dead letters of group %q: no topic is named", g.Name)
	}
	places := g.Dead
	if g.Retry != "" {
		places = append(places[:len(places):len(places)], g.Retry)
	}
	for _, name := range places {
		if why := badName("topic", name, maxRetryName); why != "" {
			return nil, fmt.Errorf("read dead letters of group %q: %s", g.Name, why)
		}
	}
	return &letterSource{b: b, g: g}, nil
}

// maxRetryName is how long the broker's own names of topics can be.
const maxRetryName = 255

// Letters implements bridge.Source.
func (s *letterSource) Letters(ctx context.Context, sink bridge.Sink) error {
	if err := s.b.begin(); err != nil {
		return err
	}
	defer s.b.calls.Done()
	ctx, cancel := s.b.living(ctx)
	defer cancel()
	err := s.follow(ctx, sink)
	switch {
	case errors.Is(context.Cause(ctx), settle.ErrClosed):
		return settle.ErrClosed
	case ctx.Err() != nil:
		return nil
	}
	return fmt.Errorf("read dead letters of group %q: %w", s.g.Name, err)
}

// follow reads all queues that there are, and begins anew when there are others,
// until ctx is done or a topic is not there or may not be read.
func (s *letterSource) follow(ctx context.Context, sink bridge.Sink) error {
	told := ""
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		places, changed, err := s.places(ctx)
		if err == nil {
			told, wait = "", firstWait
			err = s.session(ctx, places, changed, sink)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			continue
		case remoting.IsRefusal(err, remoting.TopicMissing, remoting.NoRight):
			return err
		}
		if now := err.Error(); now != told {
			told = now
			s.b.cfg.Log.Warn("reading dead letters from RocketMQ fails and is tried again", "consumer_group", s.g.Name, "error", err)
		}
		if !pause(ctx, wait) {
			return ctx.Err()
		}
	}
}

// places lists the queues of all topics. changed is closed when they may be others.
func (s *letterSource) places(ctx context.Context) (all []letterPlace, changed <-chan struct{}, err error) {
	for _, topic := range s.g.Dead {
		// A change that this finds is one that was before.
		r, err := s.b.routes.ask(ctx, topic)
		if err != nil {
			return nil, nil, err
		}
		for n, q := range r.queues {
			all = append(all, letterPlace{s: s, topic: topic, partition: n, queue: q})
		}
	}
	changed = s.b.routes.change()
	for _, topic := range s.g.Dead {
		r := s.b.routes.get(topic)
		if r == nil || !holds(all, topic, r.queues) {
			return s.places(ctx)
		}
	}
	return all, changed, nil
}

// holds reports whether places has all queues of a topic.
func holds(places []letterPlace, topic string, queues []queue) bool {
	n := 0
	for _, p := range places {
		if p.topic == topic {
			n++
		}
	}
	return n == len(queues)
}

// session reads places until ctx is done, one fails for good, or there are others.
func (s *letterSource) session(ctx context.Context, places []letterPlace, changed <-chan struct{}, sink bridge.Sink) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	offers := make(chan offer)
	var reading sync.WaitGroup
	for _, p := range places {
		reading.Go(func() {
			if err := p.run(ctx, offers); err != nil {
				cancel(err)
			}
		})
	}
	defer reading.Wait()
	defer cancel(nil)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case o := <-offers:
			o.kept <- s.keep(ctx, o.letters, sink)
		case <-changed:
			changed = s.b.routes.change()
			for _, topic := range s.g.Dead {
				if r := s.b.routes.get(topic); r == nil || !holds(places, topic, r.queues) {
					return nil
				}
			}
		}
	}
}

// offer is letters that a place has read, and waits to have kept.
type offer struct {
	letters []bridge.Letter
	kept    chan error
}

// keep passes letters on until the sink has them. Nothing else is passed on
// meanwhile.
func (s *letterSource) keep(ctx context.Context, letters []bridge.Letter, sink bridge.Sink) error {
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		if err := sink(ctx, letters); err == nil {
			return nil
		}
		if !pause(ctx, wait) {
			return ctx.Err()
		}
	}
}
