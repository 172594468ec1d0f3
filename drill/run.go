package drill

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/settlemq/settle"
)

// Config says what a drill does. See Run.
type Config struct {
	// Dir takes the scratch database. Required.
	Dir string
	// Seed decides which fault hits what and when. Defaults to 0, a seed like
	// any other.
	Seed uint64
	// Faults to inject. Defaults to none.
	Faults []string
	// Times is how many times each is injected. Defaults to 2 for a run of less
	// than 1,000 orders, 3 above.
	Times int
	// Requests are the orders, among them Poisoned ones that can't be handled
	// before Repair. Default to none.
	Requests []Request
	Poisoned int
	// Stuck are the customers for whom the coupon system hangs under
	// FaultCouponStuck. Defaults to nobody.
	Stuck []string
	// Leave is how many dead letters of such orders are left open on purpose.
	// Defaults to none.
	Leave int
	// Interval is the least time between two shots. Defaults to 400 ms.
	Interval time.Duration
	// NodePause is how long FaultBrokerPause holds a node of the broker, and about
	// what each fault of a node takes, while orders flow. Defaults to 20 s: longer
	// than clients and nodes wait for one that is silent.
	NodePause time.Duration
	// Timeout bounds everything until all has settled. Defaults to 10 min.
	Timeout time.Duration
	// Say tells a person what happens, a line each. Required.
	Say func(format string, args ...any)
	// Show is given the progress a few times a second. Defaults to nil: nobody
	// looks.
	Show func(Progress)
}

// FactsFile is the scratch database in a drill's directory.
const FactsFile = "facts.sqlite"

// ErrUnsettled is returned, beside a report, when not everything settled in
// time.
var ErrUnsettled = errors.New("not settled in time")

// run is one drill under way.
type run struct {
	cfg   Config
	sys   System
	feed  *Feed
	shots []Shot
	began time.Time
	fed   time.Time // when orders began to flow
	due   time.Time // when the next order may be placed; the feed's alone
	locks targets

	mu       sync.Mutex
	phase    string
	state    State
	fired    int
	ready    chan struct{} // closed and replaced when a shot was fired
	stuck    bool          // the coupon system hangs for cfg.Stuck
	times    map[string]int
	marks    []Mark
	planted  []plantedRecord
	standIns []Lives
}

type plantedRecord struct {
	at   settle.Coordinates
	kind string
}

// Run starts the system, feeds it, breaks it, waits until it has settled and
// checks what held. The report is complete even when the error is
// ErrUnsettled; any other error means that the drill could not be carried out.
// All processes have ended when it returns.
func Run(ctx context.Context, cfg Config, sys System) (*Report, error) {
	if cfg.Times <= 0 {
		cfg.Times = 2
		if len(cfg.Requests) >= 1000 {
			cfg.Times = 3
		}
	}
	if cfg.Interval <= 0 {
		cfg.Interval = 400 * time.Millisecond
	}
	if cfg.NodePause <= 0 {
		cfg.NodePause = 20 * time.Second
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Minute
	}
	r := &run{
		cfg: cfg, sys: sys, began: time.Now(), times: map[string]int{}, ready: make(chan struct{}),
		shots: Schedule(cfg.Seed, scheduled(cfg.Faults), cfg.Times, len(cfg.Requests)),
	}
	r.feed = &Feed{Place: sys.Place, Act: sys.Act, Gate: r.gate, Doubt: 0.02, Seed: cfg.Seed}
	return r.run(ctx)
}

func (r *run) run(ctx context.Context) (*Report, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var show sync.WaitGroup
	defer show.Wait()
	watch, unwatch := context.WithCancel(ctx)
	defer unwatch()
	show.Go(func() { r.watch(watch) })

	// Three generations of processes, ended in the opposite order.
	broker := newCrew(ctx, cancel)
	defer broker.end()
	broker.add(r.sys.Proxy.Run)
	if r.sys.Broker != nil {
		broker.add(r.sys.Broker.Run)
	}
	roles := newCrew(ctx, cancel)
	defer roles.end()
	if err := r.start(ctx, roles); err != nil {
		return nil, cause(ctx, err)
	}
	settled := r.work(ctx)
	if settled != nil && !errors.Is(settled, ErrUnsettled) {
		return nil, cause(ctx, settled)
	}
	took := time.Since(r.began)
	r.enter("checking")
	roles.end()
	report, err := r.prove(ctx, broker)
	if err != nil {
		return nil, cause(ctx, err)
	}
	report.Duration = took.Seconds()
	report.OrdersPerSecond = float64(report.Orders.Accepted) / took.Seconds()
	return report, settled
}

// cause prefers the reason why ctx ended to the error that followed from it.
func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil && !errors.Is(c, context.Canceled) {
		return c
	}
	return err
}

func (r *run) start(ctx context.Context, roles *crew) error {
	r.enter("starting")
	ctx, cancel := context.WithTimeout(ctx, min(r.cfg.Timeout, time.Minute))
	defer cancel()
	if err := r.awaitBroker(ctx); err != nil {
		return err
	}
	all := r.roles()
	for _, c := range all {
		roles.add(c.Run)
	}
	for _, c := range all {
		if err := c.Await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// awaitBroker waits until the broker serves.
func (r *run) awaitBroker(ctx context.Context) error {
	if r.sys.Broker == nil {
		return nil
	}
	return r.sys.Broker.Await(ctx)
}

// roles returns all processes but the broker, each once.
func (r *run) roles() []*Child {
	all := append(slices.Clone(r.sys.Outside), r.sys.Entry)
	for _, m := range r.sys.Services {
		for _, c := range []*Child{m.Relay, m.Consumer} {
			if !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
	}
	return all
}

// work feeds and breaks, and returns when everything has settled.
func (r *run) work(ctx context.Context) error {
	limited, cancel := context.WithTimeoutCause(ctx, r.cfg.Timeout, ErrUnsettled)
	defer cancel()
	r.fed = time.Now()
	err := r.stick(limited)
	for _, step := range []func(context.Context) error{r.feedAndBreak, r.settle, r.unstick} {
		if err == nil {
			err = step(limited)
		}
	}
	if err != nil && ctx.Err() == nil && context.Cause(limited) == ErrUnsettled {
		return ErrUnsettled
	}
	return err
}

func (r *run) feedAndBreak(ctx context.Context) error {
	r.enter(PhaseFeeding)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var breaking sync.WaitGroup
	breaking.Go(func() {
		if err := r.fire(ctx); err != nil {
			cancel(err)
		}
	})
	err := r.feed.Run(ctx, r.cfg.Requests)
	if err != nil {
		cancel(err)
	}
	breaking.Wait()
	if c := context.Cause(ctx); c != nil {
		return c
	}
	return err
}

// gate holds the feed at the place of a shot that was not fired yet, and
// spreads the orders over the time that the shots take, so that orders flow
// while processes die.
func (r *run) gate(ctx context.Context, i int) error {
	for {
		r.mu.Lock()
		fired, ready := r.fired, r.ready
		r.mu.Unlock()
		if fired == len(r.shots) || r.shots[fired].After > i {
			break
		}
		select {
		case <-ready:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.due = r.due.Add(r.firing() / time.Duration(len(r.cfg.Requests)))
	if now := time.Now(); r.due.Before(now) {
		r.due = now
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(r.due)):
		return nil
	}
}

// firing is about how long all shots take.
func (r *run) firing() (all time.Duration) {
	for _, s := range r.shots {
		if ofNode(s.Fault) {
			all += r.cfg.NodePause
		} else {
			all += r.cfg.Interval
		}
	}
	return all
}

// await waits until the system's state is as asked.
func (r *run) await(ctx context.Context, ok func(State) bool) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		s, err := r.look(ctx)
		if err == nil && ok(s) {
			return nil
		}
		select {
		case <-ctx.Done():
			if err != nil && ctx.Err() == nil {
				return err
			}
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (r *run) look(ctx context.Context) (State, error) {
	s, err := r.sys.State(ctx)
	if err == nil {
		r.mu.Lock()
		r.state = s
		r.mu.Unlock()
	}
	return s, err
}

func (r *run) enter(phase string) {
	r.mu.Lock()
	r.phase = phase
	r.mu.Unlock()
}
