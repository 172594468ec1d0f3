package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/rocketmq/remoting"
)

// reader reads one owned queue, from its floor on. Its position is in the group's
// database; the broker is told of it for its tools.
type reader struct {
	b         *Broker
	topic     string
	queue     queue
	s         settle.Subscription
	sink      settle.Sink
	partition settle.Partition
	// floor is how far the group has come; it moves with each delivery.
	floor settle.Floor
	// told is where the queue began when it was last said that the group had not come
	// so far.
	told int64
}

// generation names the queue: positions of one mean nothing in another. RocketMQ
// does not say when a topic was made, so one that was made anew is found by what is
// at the floor.
func (r *reader) generation() string { return r.queue.String() }

// shortened reports whether the group's position is of a queue that is missing from
// a list which name servers do not keep: with it partitions have other numbers.
func (r *reader) shortened() bool {
	known := r.b.routes.get(r.topic)
	return known != nil && !known.ordered && !slices.ContainsFunc(known.queues, func(q queue) bool { return q.String() == r.floor.Generation })
}

// run reads until ctx ends, or the sink or the queue says that it has to stop.
func (r *reader) run(ctx context.Context) error {
	if r.floor.Generation != "" && r.floor.Generation != r.generation() {
		if r.shortened() {
			r.b.cfg.Log.Warn("a node of a topic without a fixed list of queues is away; the group waits for it", "topic", r.topic, "queue", r.floor.Generation, "group", r.s.Group)
			<-ctx.Done() // with more queues the claims begin anew
			return nil
		}
		return r.differs("partition %d is queue %s now, the position is from %s", r.partition.Number, r.generation(), r.floor.Generation)
	}
	r.partition.Generation, r.floor.Generation = r.generation(), r.generation()
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		before := r.floor.Position
		err := r.read(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, settle.ErrFenced), errors.Is(err, settle.ErrNewGeneration):
			return err
		case r.floor.Position > before:
			wait = firstWait
		}
		if back := r.b.nodes.back(r.queue.broker); back != nil { // which was told
			select {
			case <-back:
				continue
			case <-ctx.Done():
				return nil
			}
		}
		r.b.cfg.Log.Warn("read queue", "topic", r.topic, "queue", r.queue.String(), "group", r.s.Group, "error", err)
		r.b.routes.doubt()
		if !pause(ctx, wait) {
			return nil
		}
	}
}

// read delivers what comes behind the floor until the first doubt, which is the
// error. It begins at the floor, to see that the record there is still the same.
func (r *reader) read(ctx context.Context) error {
	if err := r.check(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	l := newBacklog(r.s.MaxRecords, r.s.MaxBytes, r.floor.Position)
	var fetching sync.WaitGroup
	fetching.Go(func() { r.fetch(ctx, l, r.floor.Position) })
	defer fetching.Wait()
	defer cancel()
	for {
		batch, err := l.take(ctx)
		var moved *movedError
		if errors.As(err, &moved) {
			return r.differs("it ends at %d", moved.end)
		}
		if err == nil {
			err = r.deliver(ctx, batch)
		}
		if err != nil {
			return err
		}
		l.delivered(r.floor.Position)
	}
}

// movedError says that a queue ends before what was read of it.
type movedError struct{ end int64 }

func (m *movedError) Error() string { return fmt.Sprintf("the queue ends at %d", m.end) }

// fetch reads ahead from an offset on.
func (r *reader) fetch(ctx context.Context, l *backlog, from int64) {
	for {
		done, ok := l.room(ctx)
		if !ok {
			return
		}
		found, err := r.pull(ctx, from, r.s.MaxRecords, done, r.b.cfg.PullWait)
		if err == nil && found.Moved && found.End < from {
			err = &movedError{end: found.End}
		}
		if err != nil {
			l.add(nil, err)
			return
		}
		if to := max(found.First, found.Next); len(found.Messages) == 0 && to > from && to <= found.End {
			r.tellMissed(from, to)
			from = to
		} else if len(found.Messages) == 0 && from < found.End && !pause(ctx, firstWait) {
			return
		}
		var records []settle.Record
		for _, m := range found.Messages {
			if m.Offset >= from {
				records = append(records, record(r.topic, r.partition.Number, m))
				from = m.Offset + 1
			}
		}
		if len(records) > 0 {
			l.add(records, nil)
		}
	}
}

// tellMissed warns once of records that went before the group had come to them. One
// that has read nothing begins with what there is.
func (r *reader) tellMissed(from, first int64) {
	if from == 0 || first <= r.told {
		return
	}
	r.told = first
	r.b.cfg.Log.Warn("records were deleted before the group had read on; they are lost to it",
		"topic", r.topic, "queue", r.queue.String(), "group", r.s.Group, "read_up_to", from, "begins_at", first+1)
}

// check refuses a queue that is not the one the floor was written for: made anew,
// restored to an earlier state, or holding another event there.
func (r *reader) check(ctx context.Context) error {
	if r.floor.Position == 0 {
		return nil
	}
	found, err := r.pull(ctx, r.floor.Position-1, 1, 0, 0)
	switch {
	case err != nil:
		return err
	case found.End < r.floor.Position:
		return r.differs("it ends at %d", found.End)
	case len(found.Messages) == 0 && found.First < r.floor.Position && found.Next < r.floor.Position:
		return errors.New("the record at the group's floor can't be read now")
	case len(found.Messages) == 0 || found.Messages[0].Offset != r.floor.Position-1:
		return nil // it is not kept any more
	}
	at := record(r.topic, r.partition.Number, found.Messages[0])
	if at.Event != nil && r.floor.EventID != "" && at.Event.ID != r.floor.EventID {
		return r.differs("event %q is there", at.Event.ID)
	}
	if at.Event == nil && r.floor.EventID != "" {
		return r.differs("a record that is no event is there")
	}
	return nil
}

func (r *reader) differs(format string, v ...any) error {
	return fmt.Errorf("queue %s of topic %q is at another point than the group, which has done everything up to %d (event %q): %s: %w",
		r.queue, r.topic, r.floor.Position, r.floor.EventID, fmt.Sprintf(format, v...), settle.ErrNewGeneration)
}

// pull asks the queue's master.
func (r *reader) pull(ctx context.Context, from int64, most int, done int64, wait time.Duration) (remoting.Pulled, error) {
	known, err := r.b.routes.of(ctx, r.topic)
	if err != nil {
		return remoting.Pulled{}, err
	}
	addr, is := known.master(r.queue)
	if !is {
		r.b.nodes.lost(ctx, r.queue.broker, errNoMaster)
		return remoting.Pulled{}, errNoMaster
	}
	found, err := r.b.reading.Pull(ctx, addr, remoting.Pulling{
		Group: r.s.Group, Topic: r.topic, Queue: r.queue.id, Offset: from, MaxMessages: most, MaxBytes: r.s.MaxBytes, Done: done, Wait: wait,
	})
	if remoting.IsRefusal(err, codeNoGroup) {
		return found, r.makeGroup(ctx, addr, err)
	}
	r.b.nodes.lost(ctx, r.queue.broker, err)
	return found, err
}

// makeGroup makes a group that the broker wants to know before it lets it read.
func (r *reader) makeGroup(ctx context.Context, addr string, why error) error {
	if !r.b.cfg.Declare && len(r.b.cfg.Topics) == 0 {
		return fmt.Errorf("group %q has to be made on the broker, which does not make it by itself (mqadmin updateSubGroup): %w", r.s.Group, why)
	}
	g := remoting.Group{Name: r.s.Group, Enabled: true, Retries: groupRetries, RetryQueues: 1}
	if err := r.b.wire.SetGroup(ctx, addr, g); err != nil {
		return fmt.Errorf("make group %q, which the broker does not make by itself: %w", r.s.Group, err)
	}
	return fmt.Errorf("group %q was missing and is made", r.s.Group)
}

// groupRetries is what brokers give a group that they make by themselves.
const groupRetries = 16

func (r *reader) deliver(ctx context.Context, batch []settle.Record) error {
	if err := r.sink.Deliver(ctx, r.partition, batch); err != nil {
		return fmt.Errorf("deliver: %w", err)
	}
	last := batch[len(batch)-1]
	r.floor.Position, r.floor.EventID = last.Position, ""
	if last.Event != nil {
		r.floor.EventID = last.Event.ID
	}
	return nil
}
