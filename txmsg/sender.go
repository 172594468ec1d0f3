package txmsg

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/settlemq/settle"
)

// Sender sends events as half messages and answers the broker's checks, for one
// database and one group of producers. Any number of processes may run one for
// the same database and group: each answers for all.
type Sender[Tx any] struct {
	store  Store[Tx]
	broker Broker
	cfg    Config

	inputs chan Input
	work   sync.WaitGroup
	ready  chan struct{} // closed when the broker knows this process
	ended  chan struct{} // closed when Run has ended
	scope  atomic.Pointer[string]

	begun chan struct{} // closed when Run has begun

	mu    sync.Mutex
	runs  bool
	stats Stats
}

// New returns a sender. It does no I/O.
func New[Tx any](store Store[Tx], broker Broker, cfg Config) *Sender[Tx] {
	return &Sender[Tx]{store: store, broker: broker, cfg: cfg.withDefaults(), inputs: make(chan Input), ready: make(chan struct{}), ended: make(chan struct{}), begun: make(chan struct{})}
}

// Stats returns what the sender has done. It may be called at any time.
func (s *Sender[Tx]) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Send hands the event to the broker as a half message, runs f in a local
// transaction that begins with the record, commits, and tells the broker to
// deliver. It waits until Run has begun, for HalfTimeout at most, and until the
// broker knows this process. It blocks for the broker twice and for the database, each bounded by
// Config; ctx ends it up to the commit and not behind it. f gets a context of its
// own that also ends with Config.LocalTimeout, must use tx alone and must not
// commit; a panic in it rolls back and goes on to the caller.
//
// A nil error says that the local transaction has committed, so the event is
// delivered, at least once; Sent tells whether the broker has said so already. An
// error is ErrNotSent, ErrRolledBack (wrapping what f or the database returned),
// ErrInDoubt or ErrNotRunning, or an *InvalidEventError of the event: nothing was
// done. Send may be called from several goroutines; the fields that
// Event.Prepare fills are set in place. NotBefore can't be kept and is refused.
func (s *Sender[Tx]) Send(ctx context.Context, event *settle.Event, f func(ctx context.Context, tx Tx) error) (Sent, error) {
	if err := s.await(ctx); err != nil {
		return Sent{}, fmt.Errorf("send event of type %q: %w", event.Type, err)
	}
	if err := event.Prepare(time.Now()); err != nil {
		return Sent{}, err
	}
	if !event.NotBefore.IsZero() {
		return Sent{}, &settle.InvalidEventError{EventID: event.ID, EventType: event.Type, Field: "notBefore", Reason: "is set; a half message has no time, the outbox keeps such an event until then"}
	}
	s.count(func(n *Stats) { n.Half++ })
	o := &sending[Tx]{s: s, m: NewSending(TransactionID(*s.scope.Load(), settle.NewID()), event), event: event, f: f}
	end := o.run(ctx)
	s.count(func(n *Stats) {
		n.Half--
		switch {
		case errors.Is(end.Err, ErrNotSent):
			n.NotSent++
		case end.Outcome == Committed:
			n.Committed++
			if end.Sent.Confirmed {
				n.Confirmed++
			}
		case end.Outcome == InDoubt:
			n.InDoubt++
		default:
			n.RolledBack++
		}
	})
	if o.panicked != nil {
		panic(o.panicked)
	}
	if end.Err == nil && end.Sent.Confirmed {
		s.tell(ctx, Delivered{o.m.id})
	}
	return end.Sent, end.Err
}

// await waits until the broker knows this process.
func (s *Sender[Tx]) await(ctx context.Context) error {
	select {
	case <-s.ended:
		return ErrNotRunning
	default:
	}
	select {
	case <-s.ready:
		return nil
	default:
	}
	// Run may be about to begin, in a goroutine of its own.
	soon := time.NewTimer(s.cfg.HalfTimeout)
	defer soon.Stop()
	select {
	case <-s.begun:
	case <-soon.C:
		return ErrNotRunning
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNotRunning, ctx.Err())
	}
	select {
	case <-s.ready:
		return nil
	case <-s.ended:
		return ErrNotRunning
	case <-ctx.Done():
		return fmt.Errorf("%w: the broker does not know this process yet: %w", ErrNotSent, ctx.Err())
	}
}

func (s *Sender[Tx]) count(f func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.stats)
}

// sending carries one Sending out, in the caller's goroutine.
type sending[Tx any] struct {
	s        *Sender[Tx]
	m        *Sending
	event    *settle.Event
	f        func(ctx context.Context, tx Tx) error
	panicked any
	inside   bool // of f
}

func (o *sending[Tx]) run(ctx context.Context) Finish {
	s := o.s
	do := o.m.Step(nil)
	for {
		switch c := do.(type) {
		case SendHalf:
			do = o.m.Step(o.half(ctx))
		case RunLocal:
			s.cfg.Crash("txmsg.after_half")
			// Crash here: the broker asks, and is answered with a roll-back.
			do = o.m.Step(o.local(ctx, c.Handle))
		case AskLedger:
			do = o.m.Step(o.ask(ctx, c.Inquiry))
		case TellEnd:
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.EndTimeout)
			err := s.broker.End(ctx, c.Handle, c.Verdict)
			cancel()
			s.cfg.Crash("txmsg.after_end")
			// Crash here: delivered, and not noted: the sweep tells it again.
			do = o.m.Step(Told{err})
		case Finish:
			return c
		}
	}
}

func (o *sending[Tx]) half(ctx context.Context) Halved {
	ctx, cancel := context.WithTimeout(ctx, o.s.cfg.HalfTimeout)
	defer cancel()
	message := settle.Message{ID: o.event.ID, Event: o.event, Source: o.s.cfg.Source}
	handle, err := o.s.broker.Half(ctx, Half{ID: o.m.id, Message: message})
	return Halved{handle, err}
}

// local runs the local transaction. A panic is kept until the broker has been
// told.
func (o *sending[Tx]) local(ctx context.Context, handle Handle) (ran Ran) {
	s := o.s
	ctx, cancel := context.WithTimeout(ctx, s.cfg.LocalTimeout)
	defer cancel()
	defer func() {
		if o.panicked = recover(); o.panicked != nil {
			ran = Ran{InDoubt, fmt.Errorf("the local transaction panicked: %v", o.panicked)}
			if o.inside {
				ran.Outcome = RolledBack
			}
		}
	}()
	record := Record{ID: o.m.id, Handle: handle, Event: o.event, SweepAfter: s.cfg.SweepAfter}
	outcome, err := s.store.Transact(ctx, record, func(ctx context.Context, tx Tx) error {
		o.inside = true
		if err := o.f(ctx, tx); err != nil {
			return err
		}
		o.inside = false
		s.cfg.Crash("txmsg.before_commit")
		// Crash here: nothing was committed; the broker asks, and drops it.
		return nil
	})
	if outcome == Committed {
		s.cfg.Crash("txmsg.after_commit")
		// Crash here: the broker asks, and the record says that it is to be delivered.
	}
	return Ran{outcome, err}
}

func (o *sending[Tx]) ask(ctx context.Context, q Inquiry) Asked {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.s.cfg.CheckTimeout)
	defer cancel()
	q.Owner = o.s.cfg.Owner
	v, err := o.s.store.Judge(ctx, q)
	return Asked{v, err}
}
