package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// bench is one run.
type bench struct {
	cfg    config
	server *server
	dir    string
	said   io.Writer
	report report
	// scenes by name, and those of a round in their order.
	scenes map[string]*scene
	round  []*scene
}

// backlog is a trial of about so many events. All counts are of whole thousands,
// so that no batch of 100, 500 or 1,000 is measured in part.
func (b *bench) backlog(c contender, events int) trial {
	thousands := max(3, events/1000)
	return trial{contender: c, events: thousands * 1000, warm: (thousands + 9) / 10 * 1000, keys: keys, perTransaction: 1}
}

func (b *bench) all(ctx context.Context) error {
	for _, c := range contenders() {
		if b.cfg.wants(c.name) {
			b.report.Relays = append(b.report.Relays, relayRow{Name: c.name, Title: c.title, Events: b.drain(c).events})
		}
	}
	for round := range b.cfg.rounds {
		for _, s := range b.round {
			if s.once && round > 0 {
				continue
			}
			name := fmt.Sprintf("%d/%d %s", round+1, b.cfg.rounds, s.name)
			if err := b.each(ctx, name, round, s.trial, func(row *relayRow, o outcome) { s.keep(row.Name, o) }); err != nil {
				return err
			}
		}
	}
	for _, s := range []struct {
		name string
		run  func(context.Context) error
	}{{sceneSteady, b.steady}, {sceneConsumer, b.consumers}, {sceneProducer, b.producers}} {
		if !b.cfg.scene.MatchString(s.name) {
			continue
		}
		if err := s.run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// each runs a trial of every contender; in which order they come is turned with
// the round.
func (b *bench) each(ctx context.Context, scene string, round int, of func(contender) trial, take func(*relayRow, outcome)) error {
	for i := range b.report.Relays {
		row := &b.report.Relays[(i+round)%len(b.report.Relays)]
		c, _ := find(row.Name)
		t := of(c)
		if t.events == 0 {
			continue
		}
		began := time.Now()
		out, err := t.run(ctx, b.server, b.dir)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", scene, c.name, err)
		}
		b.say("%-24s %-14s %9.0f/s  %4.1f s", scene, c.name, out.Rate, time.Since(began).Seconds())
		take(row, out)
	}
	return nil
}

func (b *bench) say(format string, args ...any) { _, _ = fmt.Fprintf(b.said, format+"\n", args...) }

// steady stores events at a fixed rate; those of the first half second are warm-up.
func (b *bench) steady(ctx context.Context) error {
	t := func(c contender) trial {
		return trial{contender: c, events: b.cfg.rate*b.cfg.seconds + b.cfg.rate/2, warm: b.cfg.rate / 2, keys: keys, rate: b.cfg.rate}
	}
	return b.each(ctx, fmt.Sprintf("steady, %d/s", b.cfg.rate), 0, t, func(row *relayRow, o outcome) {
		row.P50, row.P99, row.P999, row.SteadyLost = o.P50, o.P99, o.P999, o.Lost
	})
}

// slowCommit is added to each commit in the consumers' second scene.
const slowCommit = time.Millisecond

func (b *bench) consumers(ctx context.Context) error {
	rates, slow := map[string][]float64{}, map[string][]float64{}
	for _, a := range appliers() {
		if b.cfg.wants(a.name) {
			b.report.Consumers = append(b.report.Consumers, consumerRow{Name: a.name, Title: a.title})
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
	for i := range b.report.Consumers {
		row := &b.report.Consumers[i]
		row.Rate, row.Slow = median(rates[row.Name]), median(slow[row.Name])
		row.RatioToRaw = medianRatio(rates[row.Name], rates[rawName])
		row.RatioToSingle = medianRatio(slow[row.Name], slow[singleName])
	}
	return nil
}

// consume is one round of all appliers.
func (b *bench) consume(ctx context.Context, delay time.Duration, rates map[string][]float64) error {
	for i := range b.report.Consumers {
		row := &b.report.Consumers[i]
		for _, a := range appliers() {
			if a.name != row.Name {
				continue
			}
			events := b.cfg.events / max(1, a.share)
			if delay > 0 {
				events /= 4
			}
			out, err := application{applier: a, events: events, keys: keys, commitDelay: delay}.run(ctx, b.server)
			if err != nil {
				return fmt.Errorf("consumer %s: %w", a.name, err)
			}
			b.say("%-24s %-14s %9.0f/s", fmt.Sprintf("consumer, commit +%v", delay), a.name, out.Rate)
			row.Wrong, row.Twice = row.Wrong+out.Wrong, out.Twice
			rates[a.name] = append(rates[a.name], out.Rate)
		}
	}
	return nil
}

func (b *bench) producers(ctx context.Context) error {
	quick, err := producers(ctx, b.server, b.cfg.rounds*b.cfg.events/20, 0)
	if err != nil {
		return err
	}
	slow, err := producers(ctx, b.server, b.cfg.rounds*b.cfg.events/40, slowCommit)
	if err != nil {
		return err
	}
	than := map[string]int{}
	for i, p := range producerKinds() {
		than[p.name] = i
		row := producerRow{Name: p.name, Title: p.title, Than: p.than, Rate: median(quick[i].rates), Slow: median(slow[i].rates)}
		row.Ratio = medianRatio(quick[i].rates, quick[than[p.than]].rates)
		row.SlowRatio = medianRatio(slow[i].rates, slow[than[p.than]].rates)
		b.report.Producers = append(b.report.Producers, row)
		b.say("%-24s %-14s %9.0f/s  %9.0f/s", "producer", p.name, row.Rate, row.Slow)
	}
	return nil
}
