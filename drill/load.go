package drill

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
)

// Outcome is what one offered request came to.
type Outcome int

// Outcomes of a request.
const (
	Accepted Outcome = iota
	Repeated         // the same request had been accepted before
	Shed             // turned away for now: the service says when to come back
	Refused          // turned away for good
	Failed           // no answer, or one that makes no sense
	// Unsent was never offered: as many as may be were unanswered.
	Unsent
	outcomes
)

// maxOffers bounds one Load: its latencies are kept to be sorted.
const maxOffers = 10_000_000

// Load offers requests at a fixed rate, whatever becomes of those before
// (open loop). Latency counts from when a request was due, not from when it
// was sent, so that a service that stalls can't hide what it made wait.
type Load struct {
	// Rate is requests per second, For how long they are offered. Required.
	Rate float64
	For  time.Duration
	// Place sends the i-th request and returns when it was answered.
	Place func(ctx context.Context, i int) Outcome
	// Timeout ends one request. Defaults to 10 s.
	Timeout time.Duration
	// InFlight bounds the requests without an answer. Defaults to 1,000.
	InFlight int
	// Progress is called about once a second. Defaults to nil: nothing.
	Progress func(offered, of int)
}

// Percentiles of latencies, in seconds.
type Percentiles struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// LoadReport is what a Load measured.
type LoadReport struct {
	Rate     float64 `json:"rate"`
	Seconds  float64 `json:"seconds"`
	Due      int     `json:"due"`
	Accepted int     `json:"accepted"`
	Repeated int     `json:"repeated"`
	Shed     int     `json:"shed"`
	Refused  int     `json:"refused"`
	Failed   int     `json:"failed"`
	Unsent   int     `json:"unsent"`
	// AcceptedPerSecond is over the time until the last answer.
	AcceptedPerSecond float64 `json:"accepted_per_second"`
	// LatencySeconds is of accepted requests, ShedSeconds of those shed.
	LatencySeconds Percentiles `json:"latency_seconds"`
	ShedSeconds    Percentiles `json:"shed_seconds"`
}

// tally collects answers from many goroutines.
type tally struct {
	mu     sync.Mutex
	counts [outcomes]int
	took   [outcomes][]float64
}

func (t *tally) add(o Outcome, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[o]++
	if o == Accepted || o == Shed {
		t.took[o] = append(t.took[o], took.Seconds())
	}
}

// Run offers the requests and waits for the answers. When ctx ends it offers
// no more and reports what was offered so far.
func (l Load) Run(ctx context.Context) (*LoadReport, error) {
	n := int(l.Rate * l.For.Seconds())
	switch {
	case !(l.Rate > 0) || math.IsInf(l.Rate, 0):
		return nil, fmt.Errorf("offer load: the rate is %v; it must be more than 0", l.Rate)
	case n < 1:
		return nil, errors.New("offer load: the rate and time given make no single request")
	case n > maxOffers:
		return nil, fmt.Errorf("offer load: %d requests; at most %d are measured in one run", n, maxOffers)
	}
	if l.Timeout <= 0 {
		l.Timeout = 10 * time.Second
	}
	if l.InFlight <= 0 {
		l.InFlight = 1000
	}
	var (
		t       tally
		answers sync.WaitGroup
		began   = time.Now()
		room    = make(chan struct{}, l.InFlight)
	)
	due := l.offer(ctx, n, began, func(i int, dueAt time.Time) {
		select {
		case room <- struct{}{}:
		default:
			t.add(Unsent, 0)
			return
		}
		answers.Go(func() {
			defer func() { <-room }()
			asked, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.Timeout)
			defer cancel()
			t.add(l.Place(asked, i), time.Since(dueAt))
		})
	})
	answers.Wait()
	return t.report(l.Rate, due, time.Since(began)), nil
}

// offer calls send for each request when it is due and returns how many were.
func (l Load) offer(ctx context.Context, n int, began time.Time, send func(i int, due time.Time)) int {
	said := began
	for i := range n {
		due := began.Add(time.Duration(float64(i) / l.Rate * float64(time.Second)))
		if wait := time.Until(due); wait > 0 {
			select {
			case <-ctx.Done():
				return i
			case <-time.After(wait):
			}
		} else if ctx.Err() != nil {
			return i
		}
		send(i, due)
		if l.Progress != nil && time.Since(said) >= time.Second {
			said = time.Now()
			l.Progress(i+1, n)
		}
	}
	return n
}

func (t *tally) report(rate float64, due int, took time.Duration) *LoadReport {
	return &LoadReport{
		Rate: rate, Seconds: took.Seconds(), Due: due,
		Accepted: t.counts[Accepted], Repeated: t.counts[Repeated], Shed: t.counts[Shed],
		Refused: t.counts[Refused], Failed: t.counts[Failed], Unsent: t.counts[Unsent],
		AcceptedPerSecond: float64(t.counts[Accepted]) / took.Seconds(),
		LatencySeconds:    percentiles(t.took[Accepted]), ShedSeconds: percentiles(t.took[Shed]),
	}
}

// percentiles takes the nearest rank: the smallest value that at least p of
// all do not exceed.
func percentiles(values []float64) Percentiles {
	if len(values) == 0 {
		return Percentiles{}
	}
	slices.Sort(values)
	at := func(p float64) float64 { return values[int(math.Ceil(p*float64(len(values))))-1] }
	return Percentiles{P50: at(0.5), P90: at(0.9), P99: at(0.99), P999: at(0.999), Max: values[len(values)-1]}
}
