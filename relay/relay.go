package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/settlemq/settle"
)

// Doorbell is what a Store may have besides: the relay then need not wait for
// its next poll to learn of new rows.
type Doorbell interface {
	// Wait blocks until something may have been appended, until limit has
	// passed, or until ctx is done. It may return early.
	Wait(ctx context.Context, limit time.Duration) error
}

// Relay carries the events of one outbox, or of one lane of it, to a broker, or
// to those that its routes name.
// Several relays on one outbox, in any number of processes, are safe: one leads
// each lane, the others stand by.
type Relay struct {
	store Store
	pub   settle.Publisher
	cfg   Config
	log   *slog.Logger
	wake  chan struct{}

	mu      sync.Mutex // guards machine
	machine *Machine
}

// stopWithin is how long the end of a Run may take beyond a publish in flight.
const stopWithin = 5 * time.Second

// New returns a relay from store to pub, the default broker, for one lane; NewCrew
// is for all that an outbox has. It does no I/O.
func New(store Store, pub settle.Publisher, cfg Config) *Relay {
	cfg = cfg.withDefaults()
	if cfg.Owner == "" {
		cfg.Owner = settle.NewID()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Relay{
		store: store, pub: pub, cfg: cfg, log: cfg.Logger.With("source", cfg.Name),
		wake: make(chan struct{}, 1), machine: NewMachine(cfg),
	}
}

// Wake tells the relay that something was appended. It never blocks and may be
// called from anywhere, also before Run.
func (r *Relay) Wake() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Stats returns what the relay has done and holds. It may be called at any
// time.
func (r *Relay) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.machine.Stats(time.Now())
}

// Run leads the outbox, or stands by, until ctx is done. It then waits for what
// is in flight, commits what was acknowledged, gives the lease back and
// returns nil. Errors of store and broker are waited out; Run returns an error
// only for what waiting does not cure: settle.ErrNewGeneration, ErrLaneEnded
// (the table was divided anew), or an end that took too long. It returns after all that it started has ended. Run is called
// once.
func (r *Relay) Run(ctx context.Context) error {
	s := newSession(r, context.WithoutCancel(ctx))
	err := s.loop(ctx)
	s.end()
	return err
}

// session is one Run: the goroutine that owns the machine, one that makes
// store calls in order, and one for each publish.
type session struct {
	*Relay
	work   context.Context // of store calls and publishes
	cancel context.CancelFunc
	inputs chan Input
	calls  chan func() Input
	group  sync.WaitGroup
	timer  *time.Timer
	hush   context.CancelFunc // ends a wait at the doorbell
	bell   Doorbell
}

func newSession(r *Relay, ctx context.Context) *session {
	s := &session{
		Relay: r,
		// Every command has one answer, so nobody ever blocks on inputs.
		inputs: make(chan Input, maxFlying*(1+len(r.cfg.Brokers))+2*int(kinds)),
		calls:  make(chan func() Input, 2*int(kinds)),
		timer:  time.NewTimer(time.Hour),
		hush:   func() {},
	}
	s.work, s.cancel = context.WithCancel(ctx)
	s.bell, _ = r.store.(Doorbell)
	s.group.Go(func() {
		for call := range s.calls {
			if in := call(); in != nil {
				s.inputs <- in
			}
		}
	})
	return s
}

func (s *session) end() {
	s.cancel()
	s.timer.Stop()
	close(s.calls)
	s.group.Wait()
}

func (s *session) loop(ctx context.Context) error {
	done := ctx.Done()
	var deadline <-chan time.Time
	in := Input(Tick{})
	for {
		halt := s.step(in)
		if halt != nil {
			return halt.Err
		}
		select {
		case in = <-s.inputs:
		case <-s.wake:
			in = Woken{}
		case <-s.timer.C:
			in = Tick{}
		case <-done:
			done, in = nil, Stopping{}
			deadline = time.After(s.cfg.PublishTimeout + stopWithin)
		case <-deadline:
			return errors.New("stop relay: store or broker did not answer in time; what was in flight may be sent again")
		}
	}
}

// step feeds one input and starts what follows from it.
func (s *session) step(in Input) *Halt {
	s.report(in)
	s.mu.Lock()
	commands := s.machine.Step(time.Now(), in)
	s.mu.Unlock()
	s.timer.Stop()
	for _, c := range commands {
		switch c := c.(type) {
		case Halt:
			return &c
		case WaitUntil:
			s.waitUntil(c)
		case Publish:
			s.group.Go(func() { s.inputs <- s.publish(c) })
		default:
			s.hush()
			s.calls <- func() Input { return s.call(c) }
		}
	}
	return nil
}

func (s *session) waitUntil(w WaitUntil) {
	wait := time.Until(w.At)
	s.timer.Reset(wait)
	if !w.Idle || s.bell == nil || wait < time.Millisecond {
		return
	}
	s.hush()
	ctx, cancel := context.WithCancel(s.work)
	s.hush = cancel
	s.calls <- func() Input {
		defer cancel()
		begun := time.Now()
		if err := s.bell.Wait(ctx, wait); err != nil || ctx.Err() != nil || time.Since(begun) >= wait {
			return nil
		}
		return Woken{}
	}
}

func (s *session) crash(point string) {
	if s.cfg.Crash != nil {
		s.cfg.Crash(point)
	}
}

func (s *session) publish(c Publish) Input {
	ctx, cancel := context.WithTimeout(s.work, c.Timeout)
	defer cancel()
	s.crash("relay.before_publish")
	pub := s.pub
	if c.Broker != "" {
		pub = s.cfg.Brokers[c.Broker]
	}
	receipts := pub.Publish(ctx, c.Messages)
	// Crash here: the broker has the batch and nobody knows. The next leader
	// sends it again under the same ids.
	s.crash("relay.after_publish")
	return Published{Batch: c.Batch, Receipts: receipts}
}

// call makes one store call. It is bounded by the lease's time: what takes
// longer could not be trusted any more.
func (s *session) call(c Command) Input {
	ctx, cancel := context.WithTimeout(s.work, s.cfg.LeaseTTL)
	defer cancel()
	in, err := s.ask(ctx, c)
	if err != nil {
		return Failed{Command: c, Err: err}
	}
	return in
}

func (s *session) ask(ctx context.Context, c Command) (Input, error) {
	switch c := c.(type) {
	case Lead:
		s.hesitate(ctx, c)
		l, err := s.store.Lead(ctx, c.Owner, c.Lane, c.TTL)
		return Elected{Lease: l}, err
	case Resign:
		return Resigned{}, s.store.Resign(ctx, c.Lease)
	case Load:
		st, err := s.store.Load(ctx, c.Lease)
		return Loaded{State: st}, err
	case Poll:
		p, err := s.store.Poll(ctx, c.Query)
		s.crash("relay.after_poll")
		return Polled{Destination: c.Destination, Query: c.Query, Page: p}, err
	case ReadSide:
		p, err := s.store.Side(ctx, c.Query)
		return SideLoaded{Query: c.Query, Page: p}, err
	case Commit:
		return s.commit(ctx, c)
	case AskOwners:
		e, err := s.store.Owners(ctx, c.Before)
		return OwnersSeen{Evidence: e}, err
	case Sweep:
		n, err := s.store.Sweep(ctx, c.Lease, c.Limit)
		return Swept{Found: n}, err
	case Retain:
		n, err := s.store.Retain(ctx, c.Lease, c.Before, c.Limit)
		return Retained{Rows: n}, err
	case LoadControls:
		ctl, err := s.store.Controls(ctx)
		return ControlsLoaded{Controls: ctl}, err
	}
	return nil, fmt.Errorf("execute %T: unknown command", c)
}

// hesitate leaves a free lane to other processes for a moment.
func (s *session) hesitate(ctx context.Context, c Lead) {
	if c.Renew || s.cfg.Hesitate == nil {
		return
	}
	wait := time.NewTimer(s.cfg.Hesitate())
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
}

func (s *session) commit(ctx context.Context, c Commit) (Input, error) {
	s.crash("relay.before_commit")
	if err := s.store.Commit(ctx, c.Lease, c.Flush); err != nil {
		return nil, err
	}
	// Crash here: everything in the flush is durable; nothing of it is done
	// again.
	s.crash("relay.after_commit")
	for _, d := range c.Flush.Dead {
		s.log.Warn("event became a dead letter", "id", d.ID, "aggregate_id", d.Key, "topic", d.Destination,
			"class", d.Class, "cause", d.Cause, "attempts", d.Attempts)
	}
	for _, p := range c.Flush.Park {
		if p.Class != settle.ClassFollower {
			s.log.Info("key is parked", "event_id", p.EventID, "aggregate_id", p.Key, "topic", p.Destination,
				"class", p.Class, "cause", p.Cause, "attempts", p.Attempts)
		}
	}
	if s.cfg.OnSent != nil && len(c.Flush.Sent) > 0 {
		s.cfg.OnSent(c.Flush.Sent)
	}
	return Committed{ID: c.ID}, nil
}

// report logs what a person should know of an input.
func (s *session) report(in Input) {
	switch in := in.(type) {
	case Failed:
		s.log.Warn("store call failed", "command", fmt.Sprintf("%T", in.Command), "error", in.Err)
	case Loaded:
		s.log.Info("leading the outbox", "checkpoint", in.State.Checkpoint.Number, "parked_keys", len(in.State.Parked))
	case Published:
		for _, r := range in.Receipts {
			switch {
			case errors.Is(r.Err, settle.ErrFenced):
				s.log.Info("broker asks for proof that this relay leads; its state is loaded anew", "why", r.Err)
				return
			case r.Err != nil:
				s.log.Warn("broker did not take a message", "error", r.Err)
				return
			}
		}
	case Swept:
		if in.Found > 0 {
			s.log.Warn("rows came late behind cold holes", "found", in.Found)
		}
	}
}
