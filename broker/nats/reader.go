package nats

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/settlemq/settle"
)

// unusedAfter is when the server drops the consumer of an owner that is gone.
// One that is held up for longer by its handler is built anew.
const unusedAfter = time.Minute

// reader reads one owned partition, from its floor on. Its position is in the
// group's database; the server's consumer is thrown away and built again from
// there at any doubt.
type reader struct {
	b         *Broker
	topic     *topic
	end       *streamEnd
	s         settle.Subscription
	sink      settle.Sink
	partition settle.Partition
	// floor is how far the group has come; it moves with each delivery.
	floor settle.Floor
	// raised is when the partition was last busy, or its floor compared with
	// the stream's end.
	raised time.Time
	// missed is where the stream began when it was last told that the group had
	// not come so far.
	missed int64
}

// run reads until ctx ends, or the sink or the stream says that it has to stop.
func (r *reader) run(ctx context.Context) error {
	r.raised = time.Now()
	wait := firstWait
	for {
		before := r.floor.Position
		err := r.incarnate(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, settle.ErrFenced), errors.Is(err, settle.ErrNewGeneration):
			return err
		case errors.Is(err, errDisconnected) || r.floor.Position > before:
			wait = firstWait
		default:
			r.b.cfg.Log.Warn("read partition", "topic", r.topic.name, "partition", r.partition.Number, "group", r.s.Group, "error", err)
		}
		if !pause(ctx, wait) {
			return nil
		}
		wait = min(2*wait, lastWait)
	}
}

// incarnate builds a consumer at the floor and delivers what it sends until
// the first doubt, which is the error.
func (r *reader) incarnate(ctx context.Context) error {
	session, err := r.b.link.await(ctx)
	if err != nil {
		return err
	}
	asked, cancel := within(ctx, session)
	defer cancel()
	consumer, err := r.build(asked)
	if err != nil {
		return because(asked, err)
	}
	defer r.remove(ctx, consumer)
	f, err := r.open(consumer)
	if err != nil {
		return fmt.Errorf("open inbox: %w", err)
	}
	defer f.close()
	for {
		batch, err := f.next(asked)
		switch {
		case err != nil:
			return because(asked, err)
		case len(batch) == 0:
			err = r.idle(ctx, asked, f)
		default:
			err = r.deliver(ctx, batch)
			f.heard = time.Now()
		}
		if err != nil {
			return err
		}
	}
}

// because names the lost connection, or the end of ctx, as the cause of err.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// build checks the stream against the floor and makes a consumer behind it.
func (r *reader) build(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, r.b.cfg.Timeout)
	defer cancel()
	info, stream, err := r.b.streamInfo(ctx, r.topic)
	if err != nil {
		return nil, err
	}
	if err := checkFloor(ctx, info, stream, r.floor); err != nil {
		return nil, err
	}
	r.tellMissed(int64(info.State.FirstSeq))
	r.partition.Generation = generation(info)
	r.floor.Generation = r.partition.Generation
	consumer, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Name:              consumerName(r.s.Group, r.partition.Number),
		Description:       "group " + r.s.Group + " owner " + r.partition.Owner,
		FilterSubject:     r.topic.subjects[r.partition.Number],
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       uint64(r.floor.Position) + 1,
		AckPolicy:         jetstream.AckNonePolicy,
		MemoryStorage:     true,
		Replicas:          1,
		InactiveThreshold: unusedAfter,
	})
	if err != nil {
		return nil, fmt.Errorf("make consumer: %w", err)
	}
	return consumer, nil
}

// tellMissed warns once of records that went before the group had come to them.
// Only the stream knows positions, so which partitions they were of is not known.
func (r *reader) tellMissed(first int64) {
	if r.floor.Position == 0 || r.floor.Position+1 >= first || first <= r.missed {
		return
	}
	r.missed = first
	r.b.cfg.Log.Warn("records were deleted before the group had read on; those of this partition, if there were any, are lost to it",
		"topic", r.topic.name, "partition", r.partition.Number, "group", r.s.Group, "read_up_to", r.floor.Position, "begins_at", first)
}

// remove deletes the consumer. Where that fails the server drops it unused.
func (r *reader) remove(ctx context.Context, consumer jetstream.Consumer) {
	if session, _ := r.b.link.current(); session.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := r.b.js.DeleteConsumer(ctx, r.topic.stream, consumer.CachedInfo().Name); err != nil {
		r.b.cfg.Log.Debug("delete consumer", "topic", r.topic.name, "error", err)
	}
}

// deliver hands a batch to the sink. A lost connection does not disturb it:
// what the sink has done counts.
func (r *reader) deliver(ctx context.Context, batch []settle.Record) error {
	if err := r.sink.Deliver(ctx, r.partition, batch); err != nil {
		return fmt.Errorf("deliver: %w", err)
	}
	r.raised = time.Now()
	last := batch[len(batch)-1]
	r.floor.Position, r.floor.EventID = last.Position, ""
	if last.Event != nil {
		r.floor.EventID = last.Event.ID
	}
	return nil
}

// idle raises the floor of a quiet partition to the end of the stream, so that
// it does not fall behind what the stream still keeps. The end is read first:
// when nothing up to it is then pending or undelivered, everything is done.
func (r *reader) idle(ctx, asked context.Context, f *fetch) error {
	if time.Since(r.raised) < r.b.cfg.IdleAfter {
		return nil
	}
	r.raised = time.Now()
	to, err := r.end.floor(asked)
	if err != nil {
		return because(asked, err)
	}
	if to.Generation != r.partition.Generation {
		return errors.New("the stream was made anew")
	}
	if to.Position <= r.floor.Position {
		return nil
	}
	done, err := f.exhausted(asked)
	if err != nil {
		return because(asked, err)
	}
	if !done {
		return nil
	}
	if err := r.s.Ownership.RaiseFloor(ctx, r.partition, to); err != nil {
		return fmt.Errorf("raise floor: %w", err)
	}
	r.floor = to
	return nil
}
