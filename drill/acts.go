package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// maxActing is how many orders may wait for an act of their customers; the
// clients wait when there are more.
const maxActing = 1000

// acting are the customers that do something about their orders, each in a
// goroutine; end waits for all.
type acting struct {
	feed *Feed
	fail context.CancelCauseFunc
	room chan struct{}
	all  sync.WaitGroup
}

func (f *Feed) acting(fail context.CancelCauseFunc) *acting {
	return &acting{feed: f, fail: fail, room: make(chan struct{}, maxActing)}
}

// begin lets the customer of an order that was just accepted act.
func (a *acting) begin(ctx context.Context, r Request, orderID string) error {
	if len(r.Acts) == 0 {
		return nil
	}
	select {
	case a.room <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	accepted := time.Now()
	a.all.Go(func() {
		defer func() { <-a.room }()
		if err := a.run(ctx, r, orderID, accepted); err != nil {
			a.fail(err)
		}
	})
	return nil
}

func (a *acting) end() { a.all.Wait() }

// run carries out the acts of one order, those of one time at the same time.
func (a *acting) run(ctx context.Context, r Request, orderID string, accepted time.Time) error {
	acts := slices.Clone(r.Acts)
	slices.SortStableFunc(acts, func(x, y Act) int { return int(x.After - y.After) })
	for len(acts) > 0 {
		n := 1
		for n < len(acts) && acts[n].After == acts[0].After {
			n++
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(accepted.Add(acts[0].After))):
		}
		errs := make([]error, n)
		var race sync.WaitGroup
		for i, act := range acts[:n] {
			race.Go(func() { errs[i] = a.feed.act(ctx, r, act.Kind, orderID) })
		}
		race.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		acts = acts[n:]
	}
	return nil
}

// act asks for one act until it is answered.
func (f *Feed) act(ctx context.Context, r Request, kind, orderID string) error {
	wait := 20 * time.Millisecond
	for {
		accepted, err := f.Act(ctx, kind, orderID)
		if err == nil {
			f.mu.Lock()
			f.acts = append(f.acts, ActAnswer{Key: r.Key, Kind: kind, Accepted: accepted})
			f.mu.Unlock()
			return nil
		}
		if errors.Is(err, ErrRefused) {
			return fmt.Errorf("%s order %s: %w", kind, orderID, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s order %s: %w (last answer: %v)", kind, orderID, ctx.Err(), err)
		case <-time.After(wait):
			wait = min(2*wait, 500*time.Millisecond)
		}
	}
}

// Acts returns every answer that a customer got to an act. Call it after Run.
func (f *Feed) Acts() []ActAnswer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.acts
}
