package rocketmq

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/rocketmq/remoting"
)

const (
	// toolsGroup is one that every broker knows, so that none has to be made to read
	// as nobody.
	toolsGroup = "TOOLS_CONSUMER"
	tapName    = "settle-tap"
	// tapRecords and tapBytes bound what is asked for at a time.
	tapRecords, tapBytes = 32, 4 << 20
)

// Tap reaches a topic's queues without anything that Publish and Subscribe promise:
// drills and checks read the log back with it, and write what a foreign program
// might. Its methods may be called from several goroutines.
type Tap struct {
	b *Broker

	mu sync.Mutex
	// planted is where each message id was stored.
	planted map[string]settle.Coordinates
}

// OpenTap makes a tap for the cluster at url. It connects when it is used.
func OpenTap(url string) (*Tap, error) {
	at, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	return &Tap{b: newBroker(at, Config{Name: tapName}), planted: map[string]settle.Coordinates{}}, nil
}

// Close ends the connections.
func (t *Tap) Close() error { return t.b.Close() }

// Ready returns nil if a name server and a broker answer.
func (t *Tap) Ready(ctx context.Context) error { return t.b.connectOnce(ctx) }

// Keep does nothing: a topic keeps what comes.
func (t *Tap) Keep(context.Context, string, []string) error { return nil }

// Forget does nothing, as Keep.
func (t *Tap) Forget(context.Context, string) error { return nil }

// Places reports that an acknowledgement says where a record is.
func (t *Tap) Places() bool { return true }

// stretch is what is read of a queue: positions from and up to, but not including,
// to.
type stretch struct {
	partition int
	queue     queue
	master    string
	from, to  int64
}

// stretches returns what a topic holds now, by queue. A topic that is missing holds
// nothing; a node that is away is an error, since what it holds is not known.
func (t *Tap) stretches(ctx context.Context, topic string) ([]stretch, error) {
	r, err := t.b.routes.ask(ctx, topic)
	if remoting.IsRefusal(err, remoting.TopicMissing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []stretch
	for n, q := range r.queues {
		s := stretch{partition: n, queue: q}
		var is bool
		if s.master, is = r.master(q); !is {
			return nil, fmt.Errorf("look at queue %s of topic %q: the name servers know no master of it", q, topic)
		}
		from, errFrom := t.b.wire.MinOffset(ctx, s.master, topic, q.id)
		to, errTo := t.b.wire.MaxOffset(ctx, s.master, topic, q.id)
		if err := errors.Join(errFrom, errTo); err != nil {
			return nil, fmt.Errorf("look at queue %s of topic %q: %w", q, topic, err)
		}
		if s.from, s.to = from, to; to > from {
			all = append(all, s)
		}
	}
	return all, nil
}

// ReadAll calls visit with every record that topic holds now, those of one queue in
// their order.
func (t *Tap) ReadAll(ctx context.Context, topic string, visit func(settle.Record) error) error {
	all, err := t.stretches(ctx, topic)
	if err != nil {
		return err
	}
	for _, s := range all {
		if err := t.read(ctx, topic, s, visit); err != nil {
			return err
		}
	}
	return nil
}

// ReadSome does the same with up to n consecutive records of one queue, from one
// place in the log: 0 is its beginning, 1 its end.
func (t *Tap) ReadSome(ctx context.Context, topic string, place float64, n int, visit func(settle.Record) error) error {
	all, err := t.stretches(ctx, topic)
	if err != nil || len(all) == 0 {
		return err
	}
	total := int64(0)
	for _, s := range all {
		total += s.to - s.from
	}
	at := int64(place * float64(total))
	for i, s := range all {
		if at >= s.to-s.from && i < len(all)-1 {
			at -= s.to - s.from
			continue
		}
		from := max(s.from, min(s.from+at, s.to-int64(n)))
		s.from, s.to = from, min(from+int64(n), s.to)
		return t.read(ctx, topic, s, visit)
	}
	return nil
}

// read reads a stretch to its end. A message that is stored can be read a moment
// later, which is waited for.
func (t *Tap) read(ctx context.Context, topic string, s stretch, visit func(settle.Record) error) error {
	for s.from < s.to {
		found, err := t.b.reading.Pull(ctx, s.master, remoting.Pulling{
			Group: toolsGroup, Topic: topic, Queue: s.queue.id, Offset: s.from, MaxMessages: tapRecords, MaxBytes: tapBytes, Wait: t.b.cfg.PullWait,
		})
		if err != nil {
			return fmt.Errorf("read queue %s of topic %q: %w", s.queue, topic, err)
		}
		if found.Moved && found.First > s.from {
			s.from = found.First // the oldest were deleted meanwhile
			continue
		}
		if found.Moved && found.End < s.from {
			return fmt.Errorf("read queue %s of topic %q: it ends at %d now and ended at %d", s.queue, topic, found.End, s.to)
		}
		if next := max(found.First, found.Next); len(found.Messages) == 0 && next > s.from && next <= found.End {
			s.from = next // what was there is gone
		} else if len(found.Messages) == 0 && !pause(ctx, firstWait) {
			return ctx.Err()
		}
		for _, m := range found.Messages {
			if m.Offset < s.from || m.Offset >= s.to {
				continue
			}
			s.from = m.Offset + 1
			if err := visit(record(topic, s.partition, m)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Plant stores value as it is, without a key, and returns where, once the broker has
// acknowledged it. partition is taken modulo how many queues the topic has. Under one
// message id this tap stores once. RocketMQ takes no empty value.
func (t *Tap) Plant(ctx context.Context, topic string, partition int, messageID string, headers map[string]string, value []byte) (settle.Coordinates, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at, is := t.planted[messageID]; is {
		return at, nil
	}
	r, err := t.b.routes.ask(ctx, topic)
	if err != nil {
		return settle.Coordinates{}, fmt.Errorf("plant a record at %q: %w", topic, err)
	}
	n := partition % len(r.queues)
	master, is := r.master(r.queues[n])
	if !is {
		return settle.Coordinates{}, fmt.Errorf("plant a record at %q: the name servers know no master of queue %s", topic, r.queues[n])
	}
	var properties []byte
	for name, value := range headers {
		properties = appendProperty(properties, name, value)
	}
	stored, err := t.b.wire.Send(ctx, master, remoting.Sending{
		Group: tapName, Topic: topic, Broker: r.queues[n].broker, Queue: r.queues[n].id, Messages: []remoting.Outgoing{{Properties: string(properties), Body: value}},
	})
	if err != nil {
		return settle.Coordinates{}, fmt.Errorf("plant a record at %q: %w", topic, err)
	}
	at := settle.Coordinates{Topic: topic, Partition: n, Offset: stored.Offset}
	t.planted[messageID] = at
	return at, nil
}

// Remove deletes a topic with all that it holds, and groups with their positions and
// the topics of their failed messages. What is gone is left at that.
func (t *Tap) Remove(ctx context.Context, topic string, groups []string) error {
	nodes, err := t.b.masters(ctx)
	if err != nil {
		return fmt.Errorf("delete topic %q: %w", topic, err)
	}
	topics := []string{topic}
	for _, g := range groups {
		topics = append(topics, retryPrefix+g, deadPrefix+g)
	}
	var failed []error
	for _, addr := range nodes {
		for _, g := range groups {
			if err := t.b.wire.DeleteGroup(ctx, addr, g); err != nil {
				failed = append(failed, fmt.Errorf("delete consumer group %q: %w", g, err))
			}
		}
		for _, name := range topics {
			if err := t.b.wire.DeleteTopic(ctx, addr, name); err != nil {
				failed = append(failed, fmt.Errorf("delete topic %q: %w", name, err))
			}
		}
	}
	for _, server := range t.b.at.servers {
		for _, name := range topics {
			if err := errors.Join(t.b.wire.ForgetTopic(ctx, server, name), t.b.wire.DeleteOrder(ctx, server, name)); err != nil {
				failed = append(failed, fmt.Errorf("forget topic %q: %w", name, err))
			}
		}
	}
	return errors.Join(failed...)
}
