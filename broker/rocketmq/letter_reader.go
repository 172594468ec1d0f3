package rocketmq

import (
	"context"
	"fmt"
	"slices"

	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/broker/rocketmq/remoting"
)

// letterPlace is a queue of dead letters.
type letterPlace struct {
	s         *letterSource
	topic     string
	partition int
	queue     queue
}

func (p letterPlace) at(offset int64) bridge.Place {
	return bridge.Place{Topic: p.topic, Partition: p.partition, Offset: offset, Queue: p.queue.String()}
}

// run reads until ctx is done. A node that is away is waited for; an error is one
// that waiting does not mend.
func (p letterPlace) run(ctx context.Context, offers chan<- offer) error {
	told := ""
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		came, err := p.read(ctx, offers)
		if came {
			wait, told = firstWait, ""
		}
		if ctx.Err() != nil {
			return nil
		}
		if remoting.IsRefusal(err, remoting.TopicMissing, remoting.NoRight) {
			return err
		}
		if now := err.Error(); now != told {
			told = now
			p.s.b.cfg.Log.Warn("reading dead letters from RocketMQ fails and is tried again", "consumer_group", p.s.g.Name, "queue", p.queue.String(), "error", err)
			p.s.b.routes.doubt()
		}
		if !pause(ctx, wait) {
			return nil
		}
	}
}

// read passes on what comes from the group's position on, until an error. It reports
// whether something was kept.
func (p letterPlace) read(ctx context.Context, offers chan<- offer) (came bool, err error) {
	addr, err := p.master(ctx)
	if err != nil {
		return false, err
	}
	from, err := p.begin(ctx, addr)
	if err != nil {
		return false, err
	}
	for {
		if addr, err = p.master(ctx); err != nil {
			return came, err
		}
		found, err := p.s.b.reading.Pull(ctx, addr, remoting.Pulling{
			Group: p.group(), Topic: p.topic, Queue: p.queue.id, Offset: from, MaxMessages: tapRecords, MaxBytes: bridge.MaxBytes, Wait: p.s.b.cfg.PullWait,
		})
		if err != nil {
			return came, err
		}
		switch next := max(found.First, found.Next); {
		case found.Moved:
			from = p.moved(from, found)
		case len(found.Messages) == 0 && next > from && next <= found.End:
			found.First = next
			from = p.moved(from, found)
		case len(found.Messages) == 0 && from < found.End && !pause(ctx, firstWait):
			return came, ctx.Err() // what is stored can be read a moment later
		}
		for _, batch := range p.batches(found.Messages) {
			if err := p.pass(ctx, offers, batch); err != nil {
				return came, err
			}
			came, from = true, batch[len(batch)-1].At.Offset+1
			// Crash here: the letters are kept, and come again under the same
			// identities. Brokers write positions to their disks every 5 s.
			if err := p.keep(ctx, addr, from); err != nil {
				return came, err
			}
		}
	}
}

// keep tells the broker up to where the letters are kept, also when ctx has ended
// since.
func (p letterPlace) keep(ctx context.Context, addr string, offset int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.s.b.cfg.Timeout)
	defer cancel()
	if err := p.s.b.wire.SetGroupOffset(ctx, addr, p.group(), p.topic, p.queue.id, offset); err != nil {
		return fmt.Errorf("keep the position of queue %s: %w", p.queue, err)
	}
	return nil
}

func (p letterPlace) group() string { return bridgePrefix + p.s.g.Name }

func (p letterPlace) master(ctx context.Context) (string, error) {
	r, err := p.s.b.routes.of(ctx, p.topic)
	if err != nil {
		return "", err
	}
	addr, is := r.master(p.queue)
	if !is {
		return "", fmt.Errorf("the name servers know no master of broker %q", p.queue.broker)
	}
	return addr, nil
}

// begin returns the position to read from: the group's, or where the queue begins.
// A broker keeps none of a group that it does not know.
func (p letterPlace) begin(ctx context.Context, addr string) (int64, error) {
	wire := p.s.b.wire
	from, err := wire.GroupOffset(ctx, addr, p.group(), p.topic, p.queue.id)
	if err == nil || !remoting.IsRefusal(err, remoting.NotFound) {
		return from, err
	}
	groups, err := wire.Groups(ctx, addr)
	if err == nil && !slices.ContainsFunc(groups, func(g remoting.Group) bool { return g.Name == p.group() }) {
		err = wire.SetGroup(ctx, addr, remoting.Group{Name: p.group(), Enabled: true, RetryQueues: 1})
	}
	// An account without that right finds the group there, or is told so when it
	// keeps a position.
	if err != nil && !remoting.IsRefusal(err, remoting.NoRight) {
		return 0, err
	}
	return wire.MinOffset(ctx, addr, p.topic, p.queue.id)
}

// moved returns where to go on when the queue has other bounds than were read to.
func (p letterPlace) moved(from int64, found remoting.Pulled) int64 {
	if found.End < from {
		p.s.b.cfg.Log.Warn("a topic of dead letters was made anew, and is read from its beginning", "topic", p.topic, "queue", p.queue.String(), "read_up_to", from, "ends_at", found.End)
		return found.First
	}
	if found.First > from {
		p.s.b.cfg.Log.Warn("dead letters were deleted before they were read; they are lost", "topic", p.topic, "queue", p.queue.String(), "read_up_to", from, "begins_at", found.First)
	}
	return max(found.First, from)
}

// batches cuts messages into what a sink is given at a time.
func (p letterPlace) batches(messages []remoting.Message) (all [][]bridge.Letter) {
	var batch []bridge.Letter
	size := 0
	for _, m := range messages {
		if len(batch) == bridge.MaxLetters || len(batch) > 0 && size+len(m.Body) > bridge.MaxBytes {
			all, batch, size = append(all, batch), nil, 0
		}
		batch, size = append(batch, p.s.letter(p.at(m.Offset), m)), size+len(m.Body)
	}
	if len(batch) > 0 {
		all = append(all, batch)
	}
	return all
}

// pass waits until letters are kept.
func (p letterPlace) pass(ctx context.Context, offers chan<- offer, letters []bridge.Letter) error {
	o := offer{letters: letters, kept: make(chan error, 1)}
	select {
	case offers <- o:
	case <-ctx.Done():
		return ctx.Err()
	}
	return <-o.kept
}
