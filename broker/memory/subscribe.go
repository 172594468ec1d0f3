package memory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/internal/claims"
)

const (
	firstWait = 10 * time.Millisecond
	lastWait  = time.Second
	// rebalance is how soon members notice one that joined or left.
	rebalance = 20 * time.Millisecond
	// idleAfter is how long a partition is quiet before its floor is raised.
	idleAfter = 100 * time.Millisecond
)

// Subscribe implements settle.Subscriber. Without an Ownership the members of
// a group share the partitions in the order they joined, and the broker keeps
// the group's positions; a topic that was made anew starts again.
func (b *Broker) Subscribe(ctx context.Context, s settle.Subscription, sink settle.Sink) error {
	if err := b.begin(s, sink); err != nil {
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
	var topics sync.WaitGroup
	for _, name := range s.Topics {
		topics.Go(func() {
			if err := b.follow(ctx, name, s, sink); err != nil {
				cancel(err)
			}
		})
	}
	select {
	case <-b.closing:
		cancel(settle.ErrClosed)
	case <-ctx.Done():
	}
	topics.Wait()
	if err := context.Cause(ctx); errors.Is(err, settle.ErrClosed) || errors.Is(err, settle.ErrNewGeneration) {
		return err
	}
	return nil
}

func (b *Broker) follow(ctx context.Context, name string, s settle.Subscription, sink settle.Sink) error {
	loop := claims.Loop{Ownership: s.Ownership, Topic: name, Partitions: b.cfg.Partitions, Log: b.cfg.Log}
	var self *member
	if s.Ownership == nil {
		self = b.membership(s.Group, name).join(s.Group)
		defer self.leave()
		loop.Ownership, loop.Every = self, rebalance
	}
	loop.Read = func(ctx context.Context, c settle.Claim) error {
		c.Partition.Generation = "" // not seen by this reader yet
		r := reader{b: b, topic: name, s: s, sink: sink, claim: c, self: self, position: c.Floor.Position}
		if self != nil {
			position, ok := self.take(ctx, c.Partition.Number)
			if !ok {
				return nil
			}
			defer self.release(c.Partition.Number)
			r.position = position
		}
		return r.run(ctx)
	}
	return loop.Run(ctx)
}

func (h *hub) membership(group, topic string) *membership {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := groupKey{group, topic}
	m := h.groups[k]
	if m == nil {
		m = newMembership(h.cfg.Partitions)
		h.groups[k] = m
	}
	return m
}

// reader reads one owned partition.
type reader struct {
	b        *Broker
	topic    string
	s        settle.Subscription
	sink     settle.Sink
	claim    settle.Claim
	self     *member
	position int64
}

func (r *reader) run(ctx context.Context) error {
	wait := firstWait
	for ctx.Err() == nil {
		batch, changed, err := r.next()
		if err != nil {
			return err
		}
		if len(batch) == 0 {
			if err := r.idle(ctx, changed); err != nil {
				return err
			}
			continue
		}
		err = r.sink.Deliver(ctx, r.claim.Partition, batch)
		switch {
		case err == nil:
			wait = firstWait
			r.position = batch[len(batch)-1].Position
			if r.self != nil {
				r.self.advance(r.claim.Partition.Number, r.position)
			}
		case errors.Is(err, settle.ErrFenced), errors.Is(err, settle.ErrNewGeneration):
			return err
		default:
			pause(ctx, wait)
			wait = min(2*wait, lastWait)
		}
	}
	return nil
}

// next returns what follows the position, and a channel that is closed when
// there is more.
func (r *reader) next() ([]settle.Record, <-chan struct{}, error) {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	t, err := r.b.topic(r.topic)
	if err != nil {
		return nil, nil, nil
	}
	n := r.claim.Partition.Number
	if err := r.check(t); err != nil {
		return nil, nil, err
	}
	r.claim.Partition.Generation = t.generation
	entries := t.after(n, r.position, r.s.MaxRecords, r.s.MaxBytes)
	records := make([]settle.Record, len(entries))
	for i, e := range entries {
		records[i] = e.record(r.topic, n)
	}
	return records, t.partitions[n].changed, nil
}

// check compares the topic with the floor, and with what was read before.
func (r *reader) check(t *topic) error {
	read, floor := r.claim.Partition.Generation, r.claim.Floor
	switch {
	case r.self != nil:
		if read != "" && read != t.generation {
			r.position = 0
		}
		return nil
	case read == t.generation || floor.Position == 0 && r.position == 0:
		return nil
	case floor.Generation != t.generation || r.position != floor.Position:
		return r.newGeneration("it was made anew")
	case floor.Position > t.last:
		return r.newGeneration(fmt.Sprintf("it ends at %d", t.last))
	}
	if e, ok := t.at(floor.Position); ok && floor.EventID != "" && e.eventID() != floor.EventID {
		return r.newGeneration(fmt.Sprintf("event %q is there now", e.eventID()))
	}
	return nil
}

func (r *reader) newGeneration(why string) error {
	return fmt.Errorf("read partition %d of topic %q: group %q is at position %d (event %q): %s: %w",
		r.claim.Partition.Number, r.topic, r.s.Group, r.position, r.claim.Floor.EventID, why, settle.ErrNewGeneration)
}

// idle waits for more. When nothing comes it raises the floor to the topic's
// end, as it was before the wait.
func (r *reader) idle(ctx context.Context, changed <-chan struct{}) error {
	timer := time.NewTimer(idleAfter)
	defer timer.Stop()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return nil
	case <-timer.C:
	}
	to := r.end()
	if r.self != nil || to.Position <= r.position {
		return nil
	}
	switch err := r.s.Ownership.RaiseFloor(ctx, r.claim.Partition, to); {
	case err == nil:
		r.position = to.Position
	case errors.Is(err, settle.ErrFenced), errors.Is(err, settle.ErrNewGeneration):
		return err
	default:
		r.b.cfg.Log.Warn("raise floor", "topic", r.topic, "partition", r.claim.Partition.Number, "error", err)
	}
	return nil
}

// end is the topic's last position if nothing of the partition is unread, the
// reader's own position otherwise.
func (r *reader) end() settle.Floor {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	own := settle.Floor{Position: r.position}
	t, err := r.b.topic(r.topic)
	if err != nil || t.generation != r.claim.Partition.Generation {
		return own
	}
	if len(t.after(r.claim.Partition.Number, r.position, 1, 1)) > 0 {
		return own
	}
	last, _ := t.at(t.last)
	return settle.Floor{Generation: t.generation, Position: t.last, EventID: last.eventID()}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
