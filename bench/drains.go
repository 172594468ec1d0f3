package main

import (
	"context"
	"errors"
	"fmt"
)

// Names of scenes between a database and a broker.
const (
	sceneBrokerDrain   = "drain"
	sceneBrokerBatched = "batched"
	sceneBrokerSteady  = "steady"
)

var brokerScenes = []string{actPublish, actHot, actRead, sceneBrokerDrain, sceneBrokerBatched, sceneBrokerSteady}

// steadyAtBroker is events per second in the steady state.
const steadyAtBroker = 1000

// drain is one trial of a carrier.
type drain struct {
	name  string
	trial trial
	keep  func(row *drainRow, o outcome)
}

// drains are the trials of a carrier in a round.
func (b *brokerBench) drains(c contender) (all []drain) {
	backlog := func(perTransaction int) trial {
		events := max(3, b.cfg.events/1000/max(1, c.share)/b.target.drainShare) * 1000
		return trial{events: events, warm: warmUp(events), perTransaction: perTransaction}
	}
	for _, d := range []drain{
		{sceneBrokerDrain, backlog(1), func(row *drainRow, o outcome) {
			row.Rates, row.cpus = append(row.Rates, o.Rate), append(row.cpus, o.RelayCPU)
		}},
		{sceneBrokerBatched, backlog(100), func(row *drainRow, o outcome) { row.Batched = append(row.Batched, o.Rate) }},
		{sceneBrokerSteady, trial{events: steadyAtBroker*b.cfg.seconds + steadyAtBroker/2, warm: steadyAtBroker / 2, rate: steadyAtBroker}, func(row *drainRow, o outcome) {
			row.p50s, row.p99s, row.Lost = append(row.p50s, o.P50), append(row.p99s, o.P99), row.Lost+o.Lost
		}},
	} {
		slow := c.share > 2 // it would be measured with a backlog before it
		if b.cfg.scene.MatchString(d.name) && !(d.name == sceneBrokerSteady && slow) {
			d.trial.engine, d.trial.contender, d.trial.broker, d.trial.keys = b.engine, c, b.url, keys
			all = append(all, d)
		}
	}
	return all
}

// carriers has each carrier's trials; those of a scene stand beside each other.
func (b *brokerBench) carriers(ctx context.Context, round int) error {
	for _, scene := range []string{sceneBrokerDrain, sceneBrokerBatched, sceneBrokerSteady} {
		for i := range b.part.Drain {
			row := &b.part.Drain[(i+round)%len(b.part.Drain)]
			c, _ := b.engine.contender(row.Name)
			for _, d := range b.drains(c) {
				if d.name != scene {
					continue
				}
				out, err := b.carry(ctx, d)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", d.name, row.Name, err)
				}
				d.keep(row, out)
				b.say(round, d.name, row.Name[len(b.target.name)+1:], out.Rate)
			}
		}
	}
	return nil
}

// carry runs one trial into an empty topic, and looks whether all came.
func (b *brokerBench) carry(ctx context.Context, d drain) (out outcome, err error) {
	if err := b.broker.create(ctx, drainTopic, readers); err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, b.broker.remove(context.Background(), drainTopic, b.groups()...)) }()
	if out, err = d.trial.run(ctx, b.server, b.dir); err != nil {
		return out, err
	}
	if out.Stopped && d.trial.rate == 0 { // the raw limit loses events that commit late
		return out, fmt.Errorf("it stopped at %.0f %%", out.Carried*100)
	}
	n, err := b.broker.held(ctx, drainTopic, readers)
	if err == nil && n < d.trial.events-out.Lost {
		err = fmt.Errorf("only %d of %d events are there", n, d.trial.events)
	}
	return out, err
}
