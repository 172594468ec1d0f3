package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/settlemq/settle"
)

// producer is a business transaction, two rows of an order, and an event with
// it or none. All have eight connections and the same rows. What a business does
// with two statements it does with three then, so each is compared with the one
// that talks to the database in the same way.
type producer struct {
	name, title string
	// than names the one without an outbox that it is compared with.
	than string
	open func(ctx context.Context, p *place) (counter, error)
}

// counter is where orders are taken.
type counter interface {
	// clerk takes one order after the other, on a connection of its own.
	clerk(ctx context.Context) (clerk, error)
	Close() error
}

type clerk interface {
	order(ctx context.Context, n int) error
	Close() error
}

// Titles of the kinds of producers.
const (
	plainTitle  = "a statement at a time, no outbox"
	byHandTitle = "and its event: INSERT by hand, lean"
	appendTitle = "and its event: Append"
	leanTitle   = "and its event: Append, lean"
)

// orderCreated is the event of an order. Append gives it its id.
func orderCreated(n int) *settle.Event {
	return &settle.Event{Type: eventType, AggregateType: "order", AggregateID: eventKey(n, keys), Payload: payload(n)}
}

const producing = 8

// stall is a producer with a place of its own.
type stall struct {
	producer
	place   *place
	counter counter
	next    int // number of the next order
	rates   []float64
}

func (p producer) stall(ctx context.Context, s server, business shop, delay time.Duration) (_ *stall, err error) {
	t := &stall{producer: p}
	if t.place, err = s.create(ctx, delay); err != nil {
		return nil, err
	}
	if err = t.place.exec(ctx, business.tables); err == nil {
		t.counter, err = p.open(ctx, t.place)
	}
	if err != nil {
		return nil, errors.Join(err, s.remove(t.place))
	}
	return t, nil
}

func (t *stall) close() error { return errors.Join(t.counter.Close(), t.place.server.remove(t.place)) }

// produce runs so many business transactions and notes how many a second. Its
// connections are made, and have prepared their statements, before.
func (t *stall) produce(ctx context.Context, transactions int) (err error) {
	var clerks [producing]clerk
	defer func() {
		for _, c := range clerks {
			if c != nil {
				err = errors.Join(err, c.Close())
			}
		}
	}()
	for i := range clerks {
		if clerks[i], err = t.counter.clerk(ctx); err != nil {
			return err
		}
	}
	if err := t.run(ctx, clerks[:], 5*producing); err != nil {
		return err
	}
	began := time.Now()
	err = t.run(ctx, clerks[:], transactions)
	t.rates = append(t.rates, float64(transactions)/time.Since(began).Seconds())
	return err
}

func (t *stall) run(ctx context.Context, clerks []clerk, transactions int) error {
	var group sync.WaitGroup
	errs := make([]error, len(clerks))
	lo, hi := t.next, t.next+transactions
	t.next = hi
	for i, c := range clerks {
		group.Go(func() {
			for n := lo + i; n < hi && errs[i] == nil; n += len(clerks) {
				errs[i] = c.order(ctx, n)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// turns is how often the producers take turns: each run is short, and is
// compared with the one beside it.
const turns = 20

// producers measures all kinds, each commit taking longer by delay.
func producers(ctx context.Context, s server, e engine, transactions int, delay time.Duration) (all []*stall, err error) {
	defer func() {
		for _, t := range all {
			err = errors.Join(err, t.close())
		}
	}()
	for _, p := range e.producers {
		t, err := p.stall(ctx, s, e.shop, delay)
		if err != nil {
			return all, err
		}
		all = append(all, t)
	}
	for round := range turns {
		for i := range all {
			t := all[(i+round)%len(all)]
			if err := t.produce(ctx, max(20*producing, transactions/turns)); err != nil {
				return all, fmt.Errorf("producer %s: %w", t.name, err)
			}
		}
	}
	return all, nil
}
