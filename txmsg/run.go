package txmsg

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/settlemq/settle"
)

// endWithin bounds what is written at an end.
const endWithin = 5 * time.Second

// Run answers checks, notes what is confirmed and sweeps up what is left over,
// until ctx is done; then it waits for what is under way, notes what is confirmed
// and returns nil. A database or a broker that does not answer is tried again for
// ever. It is called once; a second call is an error. Sends that begin after its
// end are refused; those under way are carried through.
func (s *Sender[Tx]) Run(ctx context.Context) error {
	s.mu.Lock()
	if s.runs {
		s.mu.Unlock()
		return errors.New("run sender of transactional messages: it was run before; make another one")
	}
	s.runs = true
	s.mu.Unlock()
	close(s.begun)
	defer close(s.ended)
	scope, err := s.learnScope(ctx)
	if err != nil {
		return nil //nolint:nilerr // ctx has ended before the database answered
	}
	m := NewMachine(scope, s.cfg)
	s.loop(ctx, m)
	s.drain(m)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancel()
	if ids := m.confirms.items; len(ids) > 0 {
		if err := s.store.Confirm(ending, ids); err != nil {
			s.cfg.Logger.Warn("that messages were delivered is not noted: they are delivered again", "messages", len(ids), "error", err)
		}
	}
	if answers := m.answers.items; len(answers) > 0 {
		if err := s.store.Note(ending, answers); err != nil {
			s.cfg.Logger.Warn("answers to checks are not recorded", "answers", len(answers), "error", err)
		}
	}
	return nil
}

// learnScope asks the database which one it is until it answers.
func (s *Sender[Tx]) learnScope(ctx context.Context) (string, error) {
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		asking, cancel := context.WithTimeout(ctx, lastWait)
		scope, err := s.store.Scope(asking)
		cancel()
		if err == nil {
			s.scope.Store(&scope)
			return scope, nil
		}
		s.count(func(n *Stats) { n.Trouble, n.Cause = TroubleStore, err.Error() })
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(wait):
		}
	}
}

func (s *Sender[Tx]) loop(ctx context.Context, m *Machine) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		var in Input
		select {
		case <-ctx.Done():
			continue
		case in = <-s.inputs:
		case <-timer.C:
		}
		now := time.Now()
		for _, c := range m.Step(now, in) {
			s.do(ctx, c)
		}
		s.publish(m)
		timer.Reset(max(0, time.Until(m.Next(now))))
	}
}

// publish makes the machine's figures those of the sender, beside its own.
func (s *Sender[Tx]) publish(m *Machine) {
	now := m.Stats()
	s.mu.Lock()
	was := s.stats
	now.Half, now.Committed, now.Confirmed, now.RolledBack, now.NotSent, now.InDoubt = was.Half, was.Committed, was.Confirmed, was.RolledBack, was.NotSent, was.InDoubt
	s.stats = now
	s.mu.Unlock()
	if now.Ready {
		select {
		case <-s.ready:
		default:
			close(s.ready)
		}
	}
	if now.Trouble != "" && now.Trouble != was.Trouble {
		s.cfg.Logger.Warn("transactional messages: trying again", "unreachable", now.Trouble, "error", now.Cause)
	}
	if now.GivenUp > was.GivenUp {
		s.cfg.Logger.Error("committed events could not be delivered and are dead letters", "events", now.GivenUp-was.GivenUp)
	}
}

// drain waits for what is under way.
func (s *Sender[Tx]) drain(m *Machine) {
	done := make(chan struct{})
	go func() {
		s.work.Wait()
		close(done)
	}()
	for {
		select {
		case in := <-s.inputs:
			m.Step(time.Now(), in)
		case <-done:
			s.publish(m)
			return
		}
	}
}

// tell hands an input to the loop; what is not taken before Run ends is found by
// the sweep.
func (s *Sender[Tx]) tell(ctx context.Context, in Input) {
	select {
	case s.inputs <- in:
	case <-ctx.Done():
	case <-s.ended:
	}
}

func (s *Sender[Tx]) do(ctx context.Context, c Command) {
	cfg := s.cfg
	switch c := c.(type) {
	case WarmUp:
		s.run(ctx, cfg.HalfTimeout+cfg.EndTimeout, func(ctx context.Context) Input { return Warmed{contain(func() error { return s.broker.WarmUp(ctx) })} })
	case Listen:
		s.work.Go(func() {
			err := contain(func() error {
				return s.broker.Checks(ctx, func(c Check) { s.tell(ctx, Checked{c}) })
			})
			s.inputs <- Deaf{err}
		})
	case Judge:
		s.run(ctx, cfg.CheckTimeout, func(ctx context.Context) Input { return s.judge(ctx, c) })
	case Answer:
		s.run(ctx, cfg.EndTimeout, func(ctx context.Context) Input {
			cfg.Crash("txmsg.before_answer")
			// Crash here: the row stands, and the broker asks again.
			return Replied{c.Check, c.Verdict, contain(func() error { return s.broker.Answer(ctx, c.Check, c.Verdict) })}
		})
	case Note:
		s.run(ctx, cfg.CheckTimeout, func(ctx context.Context) Input {
			return Noted{contain(func() error { return s.store.Note(ctx, c.Answers) })}
		})
	case Confirm:
		s.run(ctx, 2*cfg.CheckTimeout, func(ctx context.Context) Input {
			return ConfirmedAll{contain(func() error { return s.store.Confirm(ctx, c.IDs) })}
		})
	default:
		s.sweep(ctx, c)
	}
}

// sweep carries out what concerns records that are left over.
func (s *Sender[Tx]) sweep(ctx context.Context, c Command) {
	cfg := s.cfg
	switch c := c.(type) {
	case Look:
		s.run(ctx, cfg.CheckTimeout, func(ctx context.Context) Input {
			var open []Open
			err := contain(func() (err error) {
				open, err = s.store.Due(ctx, c.Limit, c.Hold)
				return err
			})
			return Found{open, err}
		})
	case EndAgain:
		s.run(ctx, cfg.EndTimeout, func(ctx context.Context) Input {
			return EndedAgain{c.Open, contain(func() error { return s.broker.End(ctx, c.Open.Handle, Commit) })}
		})
	case SendAnew:
		s.run(ctx, cfg.HalfTimeout, func(ctx context.Context) Input {
			var h Handle
			err := contain(func() (err error) {
				e := c.Open.Event
				h, err = s.broker.Half(ctx, Half{ID: c.Open.ID, Message: settle.Message{ID: e.ID, Event: e, Source: cfg.Source}})
				return err
			})
			return SentAnew{c.Open, h, err}
		})
	case MarkOpen:
		s.run(ctx, cfg.CheckTimeout, func(ctx context.Context) Input {
			return Marked{c.Open, c.Mark, contain(func() error { return s.store.Mark(ctx, c.Mark) })}
		})
	case Purge:
		s.run(ctx, 2*cfg.CheckTimeout, func(ctx context.Context) Input {
			var rows int
			err := contain(func() (err error) {
				rows, err = s.store.Purge(ctx, c.Keep, c.Limit)
				return err
			})
			return Purged{rows, err}
		})
	}
}

func (s *Sender[Tx]) judge(ctx context.Context, c Judge) Input {
	var v Verdict
	err := contain(func() (err error) {
		v, err = s.store.Judge(ctx, c.Inquiry)
		return err
	})
	return Judged{c.Check, v, err}
}

// run does something in a goroutine of its own and tells what came of it. What
// has begun when Run ends is carried through, within its time.
func (s *Sender[Tx]) run(ctx context.Context, within time.Duration, f func(context.Context) Input) {
	s.work.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
		defer cancel()
		s.inputs <- f(ctx)
	})
}

// contain makes a panic of a driver or a client an error: a check that panics is
// one that is not answered, and the next one is.
func contain(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}
