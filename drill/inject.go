package drill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/settlemq/settle"
)

// fire fires the shots, each when its number of orders has been placed, at
// most three at a time, and waits for all. What follows a fault of the broker's
// nodes waits until they are well. A shot that found its target down tries again;
// one that fails otherwise is reported and not counted.
func (r *run) fire(ctx context.Context) error {
	var flying sync.WaitGroup
	defer flying.Wait()
	slots := make(chan struct{}, 3)
	for i, s := range r.shots {
		if err := r.awaitPlaced(ctx, s.After); err != nil {
			return err
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		over := make(chan struct{})
		flying.Go(func() {
			defer func() { close(over); <-slots }()
			r.shoot(ctx, s, uint64(i))
		})
		r.mu.Lock()
		r.fired++
		close(r.ready)
		r.ready = make(chan struct{})
		r.mu.Unlock()
		select {
		case <-time.After(r.cfg.Interval):
		case <-ctx.Done():
			return ctx.Err()
		}
		if !ofNode(s.Fault) {
			continue
		}
		select {
		case <-over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// awaitPlaced waits until n orders were answered, or all that the gate lets
// pass are: some of them may wait for a process that is down.
func (r *run) awaitPlaced(ctx context.Context, n int) error {
	const clients = 8
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if placed, _ := r.feed.Placed(); placed >= n-clients {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (r *run) shoot(ctx context.Context, s Shot, n uint64) {
	var limit time.Time
	rnd := rand.New(rand.NewPCG(r.cfg.Seed, n))
	for {
		began := time.Now()
		done, err := r.inject(ctx, s, rnd)
		switch {
		case err == nil:
			if done > 0 {
				r.count(s.Fault, done)
				r.mark(s.Fault, began)
			}
			return
		case ctx.Err() != nil:
			return
		case limit.IsZero(): // it may have waited for its turn
			limit = time.Now().Add(15 * time.Second)
		}
		if !errors.Is(err, ErrNotRunning) || time.Now().After(limit) {
			r.cfg.Say("%s did not work: %v", s.Fault, err)
			return
		}
		select { // the target is just being started again
		case <-ctx.Done():
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// count adds to how many times a fault was seen to happen.
func (r *run) count(fault string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times[fault] += n
}

// targets keeps two shots from one target: a paused process is not killed, a
// stopped broker is not asked to lose answers.
type targets struct {
	mu   sync.Mutex
	held map[any]*sync.Mutex
}

func (t *targets) hold(target any) (release func()) {
	t.mu.Lock()
	if t.held == nil {
		t.held = map[any]*sync.Mutex{}
	}
	m := t.held[target]
	if m == nil {
		m = &sync.Mutex{}
		t.held[target] = m
	}
	t.mu.Unlock()
	m.Lock()
	return m.Unlock
}

func milliseconds(rnd *rand.Rand, from, to int) time.Duration {
	return time.Duration(from+rnd.IntN(to-from)) * time.Millisecond
}

// inject carries out one shot and returns how many times its effect was seen.
func (r *run) inject(ctx context.Context, s Shot, rnd *rand.Rand) (int, error) {
	nth := uint64(s.Nth) + r.cfg.Seed // which of several targets
	side := r.sys.Services[nth%uint64(len(r.sys.Services))]
	switch s.Fault {
	case FaultRelayKill:
		return r.kill(side.Relay)
	case FaultConsumerKill:
		return r.kill(side.Consumer)
	case FaultOrderKill:
		return r.kill(r.sys.Entry)
	case FaultInventoryKill:
		return r.killInventory()
	case FaultPause:
		return r.pause(ctx, rnd, s.Nth)
	case FaultProviderLost:
		return r.misbehave(ctx, Provider, Misbehaviour{Mode: ModeLost, Share: 0.5, For: milliseconds(rnd, 400, 900)})
	case FaultProviderSlow:
		return r.misbehave(ctx, Provider, Misbehaviour{Mode: ModeSlow, Share: 0.5, For: milliseconds(rnd, 400, 900), Delay: milliseconds(rnd, 50, 150)})
	case FaultCarrierGarbage:
		return r.misbehave(ctx, Carrier, Misbehaviour{Mode: ModeGarbage, Share: 0.5, For: milliseconds(rnd, 400, 900)})
	case FaultCarrierFail:
		return r.misbehave(ctx, Carrier, Misbehaviour{Mode: ModeFail, Share: 0.5, For: milliseconds(rnd, 400, 900)})
	case FaultCouponOutage:
		return r.misbehave(ctx, Coupons, Misbehaviour{Mode: ModeHang, For: milliseconds(rnd, 1200, 2000)})
	case FaultOutsideKill:
		return r.killOutside(nth)
	}
	defer r.locks.hold(r.sys.Broker)()
	switch s.Fault {
	case FaultBrokerStop:
		return r.stopBroker(ctx, rnd, s.Nth)
	case FaultBrokerCut:
		return r.cut(ctx, rnd)
	case FaultLostAck:
		return r.loseAnswers(ctx)
	case FaultDuplicate:
		return r.duplicate(ctx, rnd, s.Nth)
	case FaultBrokerNodeKill, FaultLeaderSwitch, FaultBrokerPause:
		return r.breakNode(ctx, s.Fault)
	case FaultPoison:
		return 0, r.plantForeign(ctx, rnd, s.Nth) // counted as a dead letter
	}
	return 0, fmt.Errorf("unknown fault %q", s.Fault)
}

func (r *run) kill(c *Child) (int, error) {
	defer r.locks.hold(c)()
	return 1, c.Kill(0)
}

// stopBroker ends a broker that serves, by SIGKILL and SIGTERM in turn.
func (r *run) stopBroker(ctx context.Context, rnd *rand.Rand, nth int) (int, error) {
	if r.sys.Broker == nil {
		return 0, errors.New("the broker is not the drill's own")
	}
	if err := r.sys.Broker.Await(ctx); err != nil {
		return 0, err
	}
	end := r.sys.Broker.Kill
	if nth%2 == 1 {
		end = r.sys.Broker.Stop
	}
	return 1, end(milliseconds(rnd, 300, 1000))
}

// killInventory kills all processes of the inventory service at one time.
func (r *run) killInventory() (int, error) {
	relay, consumer := r.sys.Services[1].Relay, r.sys.Services[1].Consumer
	if relay == consumer {
		return r.kill(relay)
	}
	defer r.locks.hold(relay)()
	defer r.locks.hold(consumer)()
	var second sync.WaitGroup
	var failed error
	second.Go(func() { failed = consumer.Kill(200 * time.Millisecond) })
	err := relay.Kill(200 * time.Millisecond)
	second.Wait()
	return 1, errors.Join(err, failed)
}

func (r *run) cut(ctx context.Context, rnd *rand.Rand) (int, error) {
	down := milliseconds(rnd, 200, 800)
	if n := r.sys.Proxy.Cut(down); n == 0 {
		return 0, fmt.Errorf("no connection was there to cut: %w", ErrNotRunning)
	}
	select { // until then nobody gets in
	case <-ctx.Done():
	case <-time.After(down):
	}
	return 1, nil
}

func (r *run) loseAnswers(ctx context.Context) (int, error) {
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if n := r.sys.Proxy.LoseAnswers(limited, 100*time.Millisecond); n == 0 {
		return 0, errors.New("nothing was published within 5 s")
	}
	return 1, nil
}

// duplicate publishes some records of the log again, as new ones: same value,
// same headers, another message id.
func (r *run) duplicate(ctx context.Context, rnd *rand.Rand, nth int) (int, error) {
	const copies = 10
	var records []settle.Record
	err := r.sys.Tap.ReadSome(ctx, r.sys.Topic, rnd.Float64(), copies, func(rec settle.Record) error {
		if rec.Event != nil {
			records = append(records, rec)
		}
		return nil
	})
	if err != nil {
		return 0, retryable(err)
	}
	done := 0
	for i, rec := range records {
		id := "again-" + strconv.Itoa(nth) + "-" + strconv.Itoa(i) + "-" + rec.Event.ID
		if err := r.plant(ctx, "duplicate", id, rec); err != nil {
			break // those acknowledged count
		}
		done++
	}
	if done == 0 {
		return 0, fmt.Errorf("no copy was acknowledged: %w", ErrNotRunning)
	}
	return done, nil
}

// plantForeign writes a record that is no envelope: the beginning of one.
func (r *run) plantForeign(ctx context.Context, rnd *rand.Rand, nth int) error {
	if nth > 0 { // one is enough; the poisoned orders are many
		return nil
	}
	return retryable(r.plant(ctx, "foreign", "foreign-"+strconv.FormatUint(r.cfg.Seed, 10), settle.Record{
		At: settle.Coordinates{Partition: rnd.IntN(16)}, Raw: []byte(`{"eventId":"cut-off-in-the-mid`),
	}))
}

// plant writes a record and remembers where it is. It asks again, under the
// same message id, when the answer is missing: what was stored must be known.
func (r *run) plant(ctx context.Context, kind, id string, rec settle.Record) error {
	at, err := r.sys.Tap.Plant(ctx, r.sys.Topic, rec.At.Partition, id, rec.Headers, rec.Raw)
	for again := 0; err != nil && again < 20 && ctx.Err() == nil; again++ {
		time.Sleep(100 * time.Millisecond)
		at, err = r.sys.Tap.Plant(ctx, r.sys.Topic, rec.At.Partition, id, rec.Headers, rec.Raw)
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.planted = append(r.planted, plantedRecord{at: at, kind: kind})
	r.mu.Unlock()
	return nil
}

// retryable marks what the target's being down explains.
func retryable(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNotRunning, err)
}

// pause stops a process past its lease while a stand-in takes over, then lets
// it go on as a zombie that still believes to be in charge.
func (r *run) pause(ctx context.Context, rnd *rand.Rand, nth int) (int, error) {
	member := r.sys.Services[rnd.IntN(len(r.sys.Services))]
	target := member.Consumer
	if nth%2 == 0 {
		target = member.Relay
	}
	defer r.locks.hold(target)()
	ctx, cancel := context.WithCancel(ctx)
	var standIn sync.WaitGroup
	second := r.sys.StandIn(target)
	defer func() {
		cancel()
		standIn.Wait()
		r.mu.Lock()
		r.standIns = append(r.standIns, second.Lives())
		r.mu.Unlock()
	}()
	standIn.Go(func() {
		if err := second.Run(ctx); err != nil {
			r.cfg.Say("stand-in for %s: %v", target.Name(), err)
		}
	})
	if err := target.Pause(ctx, r.sys.LeaseTTL+r.sys.LeaseTTL/2); err != nil {
		return 0, err
	}
	select { // both are there: only one may go on
	case <-ctx.Done():
	case <-time.After(300 * time.Millisecond):
	}
	return 1, nil
}
