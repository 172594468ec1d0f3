package main

import (
	"context"
	"errors"
	"time"

	"github.com/settlemq/settle"
)

// applier is one way to apply events once: each adds 1 to the account of its
// key. Some are delivered twice, as brokers do.
type applier struct {
	name, title string
	// create makes tables of the applier's own. Nil: none.
	create func(ctx context.Context, p *place) error
	// apply makes the effects of all that is delivered, and returns when they
	// are durable. It is called as a process begins: it knows nothing of calls
	// before it but what the database does.
	apply func(ctx context.Context, at string, d delivery) error
	// share divides the count of events for those that would take minutes.
	share int
}

// delivery is what a broker would deliver, in order, as messages whose numbers
// are numbers of events.
type delivery struct{ events []*settle.Event }

// deliver makes the delivery of events lo to hi - 1; one of so many comes again
// right behind itself.
func deliver(lo, hi, keys, againEvery int) delivery {
	d := delivery{events: make([]*settle.Event, 0, hi-lo)}
	now := time.Now()
	for n := lo; n < hi; n++ {
		e := &settle.Event{ID: eventID(n), Type: eventType, AggregateType: "order", AggregateID: eventKey(n, keys), BizKey: eventKey(n, keys),
			OccurredAt: now, AppendedAt: now, Version: 1, Topic: settle.DefaultTopic, ContentType: settle.ContentTypeJSON, Payload: payload(n)}
		d.events = append(d.events, e)
		if againEvery > 0 && n%againEvery == 0 {
			d.events = append(d.events, e)
		}
	}
	return d
}

// application is one trial of an applier.
type application struct {
	applier applier
	events  int
	keys    int
	// commitDelay is added to each commit of the database.
	commitDelay time.Duration
}

// applied is what it has shown.
type applied struct {
	Rate float64
	// Wrong is by how many effects it missed the count of events; Twice how
	// many of 500 events were applied again that were delivered again to a
	// process that has just started.
	Wrong, Twice int
}

const redelivered = 500

func (a application) run(ctx context.Context, s server, business shop) (out applied, err error) {
	p, err := s.create(ctx, a.commitDelay)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, s.remove(p)) }()
	if err := p.exec(ctx, business.account); err != nil {
		return out, err
	}
	if a.applier.create != nil {
		if err := a.applier.create(ctx, p); err != nil {
			return out, err
		}
	}
	warm := a.events / 10
	if err := a.applier.apply(ctx, p.url, deliver(0, warm, a.keys, 20)); err != nil {
		return out, err
	}
	measured := deliver(warm, a.events, a.keys, 20)
	began := time.Now()
	if err := a.applier.apply(ctx, p.url, measured); err != nil {
		return out, err
	}
	out.Rate = float64(a.events-warm) / time.Since(began).Seconds()
	before, err := effects(ctx, p)
	if err != nil {
		return out, err
	}
	if err := a.applier.apply(ctx, p.url, deliver(a.events-min(redelivered, a.events-warm), a.events, a.keys, 0)); err != nil {
		return out, err
	}
	after, err := effects(ctx, p)
	out.Wrong, out.Twice = before-a.events, after-before
	return out, err
}

func effects(ctx context.Context, p *place) (n int, err error) {
	err = p.conn.QueryRowContext(ctx, `SELECT coalesce(sum(amount), 0) FROM account`).Scan(&n)
	return n, err
}
