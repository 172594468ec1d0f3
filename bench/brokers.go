package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// brokerBench is a run on one broker.
type brokerBench struct {
	cfg    config
	target target
	url    string
	broker broker
	// engine and server are where events are drained from.
	engine engine
	server server
	dir    string
	said   io.Writer
	part   brokerPart
	began  time.Time
	// done and steps count turns.
	done, steps int
	topics      int
	// library is the topic that all read, where a broker keeps what was read.
	library string
}

// readers are the group that reads.
const readers = "bench"

// measureAt runs the bench on one broker.
func measureAt(ctx context.Context, at brokerAddress, cfg config, said io.Writer) (_ brokerPart, err error) {
	b := &brokerBench{cfg: cfg, target: at.target, url: at.url, said: said, began: time.Now()}
	if b.broker, err = at.target.connect(ctx, at.url); err != nil {
		return b.part, err
	}
	defer func() { err = errors.Join(err, b.broker.close()) }()
	from := cfg.servers[0]
	b.engine = from.engine
	if b.server, err = from.engine.connect(ctx, from.url); err != nil {
		return b.part, err
	}
	defer func() { err = errors.Join(err, b.server.close()) }()
	if b.dir, err = os.MkdirTemp("", "settle-bench-"); err != nil {
		return b.part, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	b.part.Name = at.target.name
	if b.part.Server, err = b.broker.describe(ctx); err != nil {
		return b.part, err
	}
	if b.part.Database, err = b.server.describe(ctx); err != nil {
		return b.part, err
	}
	if b.part.Database.CommitMS, err = commitCost(ctx, b.server); err != nil {
		return b.part, err
	}
	err = b.all(ctx)
	b.part.summarise()
	b.part.judge()
	return b.part, err
}

// act is what ways of a table do, and their rows.
type act struct {
	name string
	rows *[]wayRow
	turn func(ctx context.Context, w way) (passage, error)
}

func (b *brokerBench) all(ctx context.Context) (err error) {
	acts := []act{{actPublish, &b.part.Publish, b.publish(actPublish, keys)}, {actHot, &b.part.Hot, b.publish(actHot, 1)}, {actRead, &b.part.Read, b.read}}
	acts = slices.DeleteFunc(acts, func(a act) bool { return !b.cfg.scene.MatchString(a.name) })
	for _, a := range acts {
		for _, w := range b.target.ways(a.name) {
			if b.cfg.wants(w.name) {
				*a.rows = append(*a.rows, wayRow{Name: w.name, Title: w.title})
			}
		}
		b.steps += len(*a.rows) * b.cfg.rounds
	}
	for _, c := range b.target.carriers {
		if b.wants(c) {
			b.part.Drain = append(b.part.Drain, drainRow{Name: c.name, Title: c.title})
			b.steps += len(b.drains(c)) * b.cfg.rounds
		}
	}
	defer func() { err = errors.Join(err, b.tidy()) }()
	for round := range b.cfg.rounds {
		for _, a := range acts {
			if err := b.ways(ctx, round, a); err != nil {
				return err
			}
		}
		if err := b.carriers(ctx, round); err != nil {
			return err
		}
		b.part.Run.Rounds = round + 1
		if took := time.Since(b.began); took+took/time.Duration(round+1) > b.cfg.within/time.Duration(len(b.cfg.brokers)) {
			break // on a slow machine there are fewer rounds
		}
	}
	return nil
}

// wants leaves the broker's name, and what is always measured, aside.
func (b *brokerBench) wants(c contender) bool {
	name := c.name[len(b.target.name)+1:]
	return b.cfg.wants(name) && len(b.drains(c)) > 0
}

func (b *brokerBench) tidy() error {
	if b.library == "" {
		return nil
	}
	return b.broker.remove(context.Background(), b.library)
}

// ways has each way's turn; in which order they come is turned with the round.
func (b *brokerBench) ways(ctx context.Context, round int, a act) error {
	for i := range *a.rows {
		row := &(*a.rows)[(i+round)%len(*a.rows)]
		w, _ := b.target.way(a.name, row.Name)
		out, err := a.turn(ctx, w)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", a.name, w.name, err)
		}
		row.add(out)
		b.say(round, a.name, w.name, out.Rate)
	}
	return nil
}

// say tells of a turn and how long the rest will take.
func (b *brokerBench) say(round int, what, name string, rate float64) {
	b.done++
	left := time.Duration(float64(time.Since(b.began)) / float64(b.done) * float64(b.steps-b.done))
	_, _ = fmt.Fprintf(b.said, "%-8s %-20s %9.0f/s  %d/%d %-8s %3d of %d, about %v left\n", b.target.name, name, rate, round+1, b.cfg.rounds, what, b.done, b.steps, left.Round(time.Second))
}

// scaled is a count for --events 100,000, as many times more or less, in whole
// thousands: a call of Publish has as many, and is counted when it returns.
func (b *brokerBench) scaled(events, share int) int {
	return max(3, events/1000*b.cfg.events/100_000/max(1, share)) * 1000
}

func (b *brokerBench) topic() string {
	b.topics++
	return fmt.Sprintf("settle-bench-%d-%d", os.Getpid(), b.topics)
}

func (b *brokerBench) task(topic string, events, keys int) task {
	return task{URL: b.url, Topic: topic, Group: readers, Events: events, Of: events, Warm: warmUp(events), Keys: keys, Window: b.target.window}
}

// warmUp is a tenth, in whole thousands.
func warmUp(events int) int { return (events/1000 + 9) / 10 * 1000 }

// hotShare divides the events of the trial with one key, which some carry one
// at a time.
const hotShare = 5

// publish has a way publish into a topic of its own, and looks whether all came.
func (b *brokerBench) publish(name string, keys int) func(context.Context, way) (passage, error) {
	return func(ctx context.Context, w way) (out passage, err error) {
		share := max(1, w.share)
		if keys == 1 {
			share *= hotShare
		}
		topic := b.topic()
		if err := b.broker.create(ctx, topic, readers); err != nil {
			return out, err
		}
		defer func() { err = errors.Join(err, b.broker.remove(context.Background(), topic, b.groups()...)) }()
		t := b.task(topic, b.scaled(b.target.published, share), keys)
		if out, err = t.turn(ctx, b.target.name, name, w.name); err != nil {
			return out, err
		}
		n, err := b.broker.held(ctx, topic, readers)
		if err == nil && n < t.Events {
			err = fmt.Errorf("only %d of %d events are there", n, t.Events)
		}
		return out, err
	}
}

// groups are those whose queues are the topic's, where there are such.
func (b *brokerBench) groups() []string {
	if b.target.keeps {
		return nil
	}
	return []string{readers}
}

// read has a way read what lies in a topic.
func (b *brokerBench) read(ctx context.Context, w way) (out passage, err error) {
	events := b.scaled(b.target.read, w.share)
	if b.target.keeps {
		if b.library == "" {
			b.library = b.topic()
			if err := b.fill(ctx, b.library, b.scaled(b.target.read, 1)); err != nil {
				return out, err
			}
		}
		t := b.task(b.library, events, keys)
		t.Group, t.Of = b.topic(), b.scaled(b.target.read, 1)
		return t.turn(ctx, b.target.name, actRead, w.name)
	}
	topic := b.topic()
	defer func() { err = errors.Join(err, b.broker.remove(context.Background(), topic, readers)) }()
	if err := b.fill(ctx, topic, events); err != nil {
		return out, err
	}
	return b.task(topic, events, keys).turn(ctx, b.target.name, actRead, w.name)
}

// fill publishes so many events by the first way.
func (b *brokerBench) fill(ctx context.Context, topic string, events int) error {
	if err := b.broker.create(ctx, topic, readers); err != nil {
		return err
	}
	_, err := b.task(topic, events, keys).do(ctx, b.target.publishers[0])
	return err
}
