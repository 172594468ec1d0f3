package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// bench is a run on one engine.
type bench struct {
	cfg    config
	engine engine
	server server
	dir    string
	said   io.Writer
	part   part
	// scenes by name, and those of a round in their order.
	scenes map[string]*scene
	round  []*scene
}

// backlog is a trial of about so many events. All counts are of whole thousands,
// so that no batch of 100, 500 or 1,000 is measured in part.
func (b *bench) backlog(c contender, events int) trial {
	thousands := max(3, events/1000)
	return trial{engine: b.engine, contender: c, events: thousands * 1000, warm: (thousands + 9) / 10 * 1000, keys: keys, perTransaction: 1}
}

func (b *bench) all(ctx context.Context) error {
	for _, c := range b.engine.contenders {
		if b.cfg.wants(c.name) {
			b.part.Relays = append(b.part.Relays, relayRow{Name: c.name, Title: c.title, Events: b.drain(c).events})
		}
	}
	for round := range b.cfg.rounds {
		for _, together := range b.groups(round) {
			if err := b.each(ctx, round, func(row *relayRow, c contender) error {
				for _, s := range together {
					if err := b.try(ctx, fmt.Sprintf("%d/%d %s", round+1, b.cfg.rounds, s.name), s.trial(c), func(o outcome) { s.keep(c.name, o) }); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				return err
			}
		}
	}
	for _, s := range []struct {
		name string
		run  func(context.Context) error
	}{{sceneSteady, b.steady}, {sceneBeside, b.beside}, {sceneConsumer, b.consumers}, {sceneProducer, b.producers}} {
		if !b.cfg.scene.MatchString(s.name) {
			continue
		}
		if err := s.run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// groups are the scenes of a round; those that are compared with each other are
// together.
func (b *bench) groups(round int) (groups [][]*scene) {
	for _, s := range b.round {
		switch {
		case s.once && round > 0:
		case s.follows && len(groups) > 0:
			groups[len(groups)-1] = append(groups[len(groups)-1], s)
		default:
			groups = append(groups, []*scene{s})
		}
	}
	return groups
}

// each runs f for every contender; in which order they come is turned with the
// round.
func (b *bench) each(ctx context.Context, round int, f func(*relayRow, contender) error) error {
	for i := range b.part.Relays {
		row := &b.part.Relays[(i+round)%len(b.part.Relays)]
		c, _ := b.engine.contender(row.Name)
		if err := f(row, c); err != nil {
			return err
		}
	}
	return nil
}

// try runs a trial, unless it has no events.
func (b *bench) try(ctx context.Context, name string, t trial, take func(outcome)) error {
	if t.events == 0 {
		return nil
	}
	began := time.Now()
	out, err := t.run(ctx, b.server, b.dir)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", name, t.contender.name, err)
	}
	b.say("%-14s %9.0f/s  %4.1f s  %s", t.contender.name, out.Rate, time.Since(began).Seconds(), name)
	take(out)
	return nil
}

func (b *bench) say(format string, args ...any) {
	_, _ = fmt.Fprintf(b.said, "%-8s "+format+"\n", append([]any{b.engine.name}, args...)...)
}

// steady stores events at a fixed rate; those of the first half second are warm-up.
func (b *bench) steady(ctx context.Context) error {
	return b.each(ctx, 0, func(row *relayRow, c contender) error {
		t := trial{engine: b.engine, contender: c, events: b.cfg.rate*b.cfg.seconds + b.cfg.rate/2, warm: b.cfg.rate / 2, keys: keys, rate: b.cfg.rate}
		return b.try(ctx, fmt.Sprintf("steady, %d/s", b.cfg.rate), t, func(o outcome) {
			row.P50, row.P99, row.P999, row.SteadyLost = o.P50, o.P99, o.P999, o.Lost
		})
	})
}

// besideTurn is how long producers work at a time, with a relay or without.
const besideTurn = time.Second

func (b *bench) beside(ctx context.Context) error {
	return b.each(ctx, 0, func(row *relayRow, c contender) error {
		out, err := trial{engine: b.engine, contender: c, keys: keys}.workBeside(ctx, b.server, b.dir, b.cfg.rounds, besideTurn)
		if err != nil {
			return fmt.Errorf("producers beside %s: %w", c.name, err)
		}
		row.Beside = out.row()
		b.say("%-14s %9.0f/s  beside: %.2f of without, p99 %.1f ms", c.name, row.Beside.Rate, row.Beside.Ratio, row.Beside.P99)
		return nil
	})
}

// slowCommit is added to each commit in the consumers' second scene.
const slowCommit = time.Millisecond

func (b *bench) consumers(ctx context.Context) error {
	rates, slow := map[string][]float64{}, map[string][]float64{}
	for _, a := range b.engine.appliers {
		if b.cfg.wants(a.name) {
			b.part.Consumers = append(b.part.Consumers, consumerRow{Name: a.name, Title: a.title})
		}
	}
	for range b.cfg.rounds {
		if err := b.consume(ctx, 0, rates); err != nil {
			return err
		}
		if err := b.consume(ctx, slowCommit, slow); err != nil {
			return err
		}
	}
	for i := range b.part.Consumers {
		row := &b.part.Consumers[i]
		row.Rate, row.Slow = median(rates[row.Name]), median(slow[row.Name])
		row.RatioToRaw = medianRatio(rates[row.Name], rates[rawName])
		row.RatioToSingle = medianRatio(slow[row.Name], slow[singleName])
	}
	return nil
}

// consume is one round of all appliers.
func (b *bench) consume(ctx context.Context, delay time.Duration, rates map[string][]float64) error {
	for i := range b.part.Consumers {
		row := &b.part.Consumers[i]
		for _, a := range b.engine.appliers {
			if a.name != row.Name {
				continue
			}
			events := b.cfg.events / max(1, a.share)
			if delay > 0 {
				events /= 4
			}
			out, err := application{applier: a, events: events, keys: keys, commitDelay: delay}.run(ctx, b.server, b.engine.shop)
			if err != nil {
				return fmt.Errorf("consumer %s: %w", a.name, err)
			}
			b.say("%-14s %9.0f/s  consumer, commit +%v", a.name, out.Rate, delay)
			row.Wrong, row.Twice = row.Wrong+out.Wrong, out.Twice
			rates[a.name] = append(rates[a.name], out.Rate)
		}
	}
	return nil
}

func (b *bench) producers(ctx context.Context) error {
	quick, err := producers(ctx, b.server, b.engine, b.cfg.rounds*b.cfg.events/20, 0)
	if err != nil {
		return err
	}
	slow, err := producers(ctx, b.server, b.engine, b.cfg.rounds*b.cfg.events/40, slowCommit)
	if err != nil {
		return err
	}
	than := map[string]int{}
	for i, p := range b.engine.producers {
		than[p.name] = i
		row := producerRow{Name: p.name, Title: p.title, Than: p.than, Rate: median(quick[i].rates), Slow: median(slow[i].rates)}
		row.Ratio = medianRatio(quick[i].rates, quick[than[p.than]].rates)
		row.SlowRatio = medianRatio(slow[i].rates, slow[than[p.than]].rates)
		b.part.Producers = append(b.part.Producers, row)
		b.say("%-14s %9.0f/s  producer, %.0f/s with slow commits", p.name, row.Rate, row.Slow)
	}
	return nil
}
