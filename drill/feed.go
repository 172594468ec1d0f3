package drill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// ErrRefused marks an answer that asking again can't change.
var ErrRefused = errors.New("refused")

// Feed places requests as clients do: several at once, each asked again until
// it is answered.
type Feed struct {
	// Place asks once. An error that is not ErrRefused means that the client
	// does not know what became of its request.
	Place func(ctx context.Context, r Request) (orderID string, err error)
	// Act asks once for what a customer wants done about an order. A refusal is
	// an answer; an error means that nobody knows, or, if it is ErrRefused, that
	// there is no sense in asking. Defaults to nil: no request has acts.
	Act func(ctx context.Context, kind, orderID string) (accepted bool, err error)
	// Workers is how many clients there are. Defaults to 8.
	Workers int
	// Gate is called before the i-th request is taken up and may block.
	// Defaults to nil: no gate.
	Gate func(ctx context.Context, i int) error
	// Doubt is the part of requests, 0 to 1, that a client repeats although it
	// was answered. Defaults to 0.
	Doubt float64
	Seed  uint64

	mu      sync.Mutex
	answers []Answer
	acts    []ActAnswer
	placed  int
	asked   int
}

// Run places all requests and returns when each is answered and all acts are,
// or with the first error that asking again can't cure.
func (f *Feed) Run(ctx context.Context, requests []Request) error {
	workers := f.Workers
	if workers <= 0 {
		workers = 8
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	acting := f.acting(cancel)
	var clients sync.WaitGroup
	for range workers {
		clients.Go(func() {
			for i := range next {
				if err := f.place(ctx, i, requests[i], acting); err != nil {
					cancel(err)
				}
			}
		})
	}
	err := f.hand(ctx, len(requests), next)
	close(next)
	clients.Wait()
	acting.end()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func (f *Feed) hand(ctx context.Context, n int, next chan<- int) error {
	for i := range n {
		if f.Gate != nil {
			if err := f.Gate(ctx, i); err != nil {
				return err
			}
		}
		select {
		case next <- i:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (f *Feed) place(ctx context.Context, i int, r Request, acting *acting) error {
	rnd := rand.New(rand.NewPCG(f.Seed, uint64(i)))
	times := 1
	if rnd.Float64() < f.Doubt {
		times = 2
	}
	for nth := range times {
		id, err := f.ask(ctx, r)
		switch {
		case r.Refused && errors.Is(err, ErrRefused):
			continue
		case err != nil:
			return err
		}
		f.mu.Lock()
		f.answers = append(f.answers, Answer{Key: r.Key, OrderID: id})
		f.mu.Unlock()
		if nth == 0 {
			if err := acting.begin(ctx, r, id); err != nil {
				return err
			}
		}
	}
	f.mu.Lock()
	f.placed++
	f.mu.Unlock()
	return nil
}

func (f *Feed) ask(ctx context.Context, r Request) (string, error) {
	wait := 20 * time.Millisecond
	for {
		f.mu.Lock()
		f.asked++
		f.mu.Unlock()
		id, err := f.Place(ctx, r)
		switch {
		case err == nil:
			return id, nil
		case errors.Is(err, ErrRefused):
			return "", fmt.Errorf("place order %s: %w", r.Key, err)
		}
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("place order %s: %w (last answer: %v)", r.Key, ctx.Err(), err)
		case <-time.After(wait):
			wait = min(2*wait, 500*time.Millisecond)
		}
	}
}

// Placed returns how many requests were answered so far, and how many times
// clients asked.
func (f *Feed) Placed() (answered, asked int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.placed, f.asked
}

// Answers returns every answer that a client got. Call it after Run.
func (f *Feed) Answers() []Answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.answers
}
