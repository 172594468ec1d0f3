package direct

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/settlemq/settle"
)

// Sender sends events at once. It has no goroutine of its own; what it stores is
// sent by the outbox's relay. Its methods may be called from several goroutines.
type Sender struct {
	pub     settle.Publisher
	store   Store
	cfg     Config
	rest    *gobreaker.TwoStepCircuitBreaker[struct{}]
	room    chan struct{}
	keys    *keys
	counted counters
}

// New returns a Sender. It does no I/O.
func New(pub settle.Publisher, store Store, cfg Config) *Sender {
	cfg = cfg.withDefaults()
	s := &Sender{pub: pub, store: store, cfg: cfg, room: make(chan struct{}, cfg.MaxInFlight), keys: newKeys()}
	s.rest = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:     cfg.Pause,
		ReadyToTrip: func(n gobreaker.Counts) bool { return int(n.ConsecutiveFailures) >= cfg.Failures },
		// What the broker refused of one event says nothing of others.
		IsSuccessful: func(err error) bool { return err == nil || settle.ScopeOf(err) == settle.ScopeRecord },
		IsExcluded:   func(err error) bool { return errors.Is(err, errGivenUp) },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			switch to {
			case gobreaker.StateOpen:
				cfg.Logger.Warn("the broker is not asked for a while; events are stored", "pause", cfg.Pause)
			case gobreaker.StateClosed:
				cfg.Logger.Info("the broker takes events again")
			case gobreaker.StateHalfOpen:
			}
		},
	})
	return s
}

// Stats returns what was done so far.
func (s *Sender) Stats() Stats {
	return Stats{
		Sent: s.counted.sent.Load(), Stored: s.counted.stored.Load(), Unasked: s.counted.unasked.Load(), Lost: s.counted.lost.Load(),
		Resting: s.rest.State() == gobreaker.StateOpen,
	}
}

// errGivenUp is told of a call whose caller has not waited for the broker: it says
// nothing of that.
var errGivenUp = errors.New("the caller has given up")

// errNotDue stores an event whose time has not come.
var errNotDue = errors.New("it is not due yet")

// Send prepares an event (settle.Event.Prepare) and sends it; call it after the
// transaction that made it true has committed. It blocks until the broker holds
// the event, or else until the outbox does: for Config.Timeout and
// Config.StoreTimeout at most. When ctx ends earlier, the event is stored.
//
// An *settle.InvalidEventError is the event's fault; nothing was tried. A
// *LostError is the one failure that leaves the event nowhere.
//
// Crash here: before Send, and in it before the broker has answered or the outbox
// has committed, a process that dies takes the event with it. After that the
// broker or the outbox has it.
func (s *Sender) Send(ctx context.Context, e *settle.Event) (Outcome, error) {
	if err := e.Prepare(time.Now()); err != nil {
		return Lost, err
	}
	asked, err := false, errNotDue
	if !e.NotBefore.After(time.Now()) {
		asked, err = s.publish(ctx, e)
	}
	if err == nil {
		s.counted.sent.Add(1)
		return Sent, nil
	}
	storing, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.StoreTimeout)
	defer cancel()
	// Crash here: the event was refused, or is in doubt, and is not stored: it is
	// lost, unless the broker has it.
	if errStore := s.store(storing, e); errStore != nil {
		s.counted.lost.Add(1)
		return Lost, &LostError{EventID: e.ID, EventType: e.Type, Key: e.AggregateID, Unknown: asked && settle.ScopeOf(err) == settle.ScopeBroker, Sending: err, Storing: errStore}
	}
	s.counted.stored.Add(1)
	if !asked {
		s.counted.unasked.Add(1)
	} else {
		s.cfg.Logger.Warn("an event could not be sent; the outbox has it", "event_id", e.ID, "event_type", e.Type, "topic", e.Topic, "cause", err)
	}
	return Stored, nil
}

// publish asks the broker, if it may be asked. At most one event of a key is with
// it at a time, as a Publisher wants it.
func (s *Sender) publish(ctx context.Context, e *settle.Event) (asked bool, err error) {
	trying, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	// The key first: many events of one key must not take the room of others.
	release, err := s.keys.take(trying, e.AggregateID)
	if err != nil {
		return false, fmt.Errorf("wait for an event of the same key: %w", err)
	}
	defer release()
	select {
	case s.room <- struct{}{}:
	case <-trying.Done():
		return false, fmt.Errorf("wait for one of %d events that are with the broker: %w", s.cfg.MaxInFlight, trying.Err())
	}
	defer func() { <-s.room }()
	done, err := s.rest.Allow()
	if err != nil {
		return false, fmt.Errorf("the broker has failed and is not asked: %w", err)
	}
	err = s.ask(trying, e)
	if err != nil && ctx.Err() != nil {
		done(errGivenUp)
		return true, err
	}
	done(err)
	return true, err
}

// ask returns what became of the event. A publisher that panics has not answered.
func (s *Sender) ask(ctx context.Context, e *settle.Event) (err error) {
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("the publisher panicked: %v", why)
		}
	}()
	receipts := s.pub.Publish(ctx, []settle.Message{{ID: e.ID, Event: e, Source: s.cfg.Source}})
	if len(receipts) != 1 {
		return fmt.Errorf("the publisher gave %d answers for one event", len(receipts))
	}
	return receipts[0].Err
}
