package consumer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/settlemq/settle"
)

// session is one Run: it executes the machine's commands and is the sink and
// the ownership of its subscription.
type session[Tx any] struct {
	group    string
	cfg      Config
	sub      settle.Subscriber
	inbox    settle.Inbox[Tx]
	handlers map[string]*handler[Tx]

	mu      sync.Mutex // guards what follows, and makes steps one at a time
	machine *Machine
	waiting map[DeliveryID]chan error
	last    DeliveryID
	owned   map[partName]struct{}
	leased  bool
	// attends is true once the inbox may know of member: this Run's name where
	// the broker assigns partitions.
	attends bool
	member  string
	acked   map[partName]bool // only with Crash
	notes   []Note
	halted  error

	// The machine bounds what is unanswered, so that no send on these blocks.
	works     chan Apply
	questions chan Command
	wake      chan time.Time // holds the newest WaitUntil
	halt      chan struct{}
	stopped   chan struct{}
}

var (
	_ settle.Sink      = (*session[any])(nil)
	_ settle.Ownership = (*session[any])(nil)
)

func newSession[Tx any](c *Consumer[Tx], cfg Config) *session[Tx] {
	rules := make(map[string]HandlerRule, len(c.handlers))
	for t, h := range c.handlers {
		rules[t] = h.rule()
	}
	return &session[Tx]{
		group: c.group, cfg: cfg, member: cfg.Owner + "-" + rand.Text()[:8], sub: c.sub, inbox: c.inbox, handlers: c.handlers,
		machine:   NewMachine(c.group, rules, cfg),
		waiting:   make(map[DeliveryID]chan error),
		owned:     make(map[partName]struct{}),
		acked:     make(map[partName]bool),
		works:     make(chan Apply, cfg.Concurrency+1),
		questions: make(chan Command, 4),
		wake:      make(chan time.Time, 1),
		halt:      make(chan struct{}),
		stopped:   make(chan struct{}),
	}
}

// run starts everything, waits for the end of ctx, of the subscription or of
// the group, and winds everything up in the order in which it depends on each
// other: deliveries, transactions, leases.
func (s *session[Tx]) run(ctx context.Context) error {
	deliver, endDelivery := context.WithCancel(ctx)
	defer endDelivery()
	// Transactions outlive ctx, for a bounded time: what is being applied when
	// the consumer is stopped is finished.
	work, endWork := context.WithCancel(context.WithoutCancel(ctx))
	defer endWork()

	var crew sync.WaitGroup
	for i := range s.cfg.Concurrency {
		crew.Go(func() { s.workOff(work, i+1) })
	}
	crew.Go(func() { s.answer(work) })
	crew.Go(s.keepTime)

	s.step(Tick{})
	subscribed := make(chan error, 1)
	crew.Go(func() {
		subscribed <- s.sub.Subscribe(deliver, settle.Subscription{
			Group: s.group, Topics: s.cfg.Topics, MaxRecords: s.cfg.BatchRows, MaxBytes: s.cfg.BatchBytes, Ownership: s,
		}, s)
	})

	var err error
	ended := false
	select {
	case <-ctx.Done():
	case <-s.halt:
	case err = <-subscribed:
		ended = true
		if err == nil && ctx.Err() == nil {
			err = errors.New("the subscription ended by itself")
		}
	}
	endDelivery()
	deadline := time.AfterFunc(s.cfg.StopTimeout, endWork)
	defer deadline.Stop()
	s.step(Stopping{})
	<-s.stopped
	if !ended {
		err = <-subscribed
	}
	endWork()
	close(s.works)
	close(s.questions)
	close(s.wake)
	crew.Wait()
	s.release(ctx)
	return s.ending(err)
}

// ending returns why the session has ended, if not by request.
func (s *session[Tx]) ending(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.halted != nil {
		return s.halted
	}
	return err
}

// release gives the partitions back and ends the attendance, so that the next
// owner does not wait for the lease and sees no death.
func (s *session[Tx]) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.StopTimeout)
	defer cancel()
	for owner, is := range map[string]bool{s.cfg.Owner: s.leased, s.member: s.attends} {
		if !is {
			continue
		}
		if err := s.inbox.Release(ctx, s.group, owner); err != nil {
			s.cfg.Logger.Warn("release partitions", "consumer_group", s.group, "error", err)
		}
	}
}

// step passes an input to the machine and executes what follows.
func (s *session[Tx]) step(in Input) {
	s.mu.Lock()
	for _, c := range s.machine.Step(time.Now(), in) {
		s.execute(c)
	}
	notes := s.notes
	s.notes = nil
	s.mu.Unlock()
	for _, n := range notes {
		s.log(n)
	}
}

func (s *session[Tx]) execute(c Command) {
	switch c := c.(type) {
	case Apply:
		s.works <- c
	case LoadDue, LoadControls, Attend, Forget:
		s.questions <- c
	case Complete:
		answer := s.waiting[c.ID]
		delete(s.waiting, c.ID)
		answer <- c.Err
	case WaitUntil:
		select {
		case <-s.wake:
		default:
		}
		s.wake <- c.At
	case Note:
		s.notes = append(s.notes, c)
	case Halt:
		s.halted = c.Err
		close(s.halt)
	case Stopped:
		close(s.stopped)
	}
}

// answer asks the inbox what the machine wants to know.
func (s *session[Tx]) answer(ctx context.Context) {
	for c := range s.questions {
		switch c := c.(type) {
		case LoadDue:
			due, err := s.inbox.Due(ctx, s.group, c.Limit)
			s.step(DueLoaded{Due: due, Err: wrap("load due events", err)})
		case LoadControls:
			controls, err := s.inbox.Controls(ctx)
			s.step(ControlsLoaded{Controls: controls, Err: wrap("load controls", err)})
		case Attend:
			s.mu.Lock()
			s.attends = true
			s.mu.Unlock()
			d, err := s.inbox.Attend(ctx, settle.Attendance{Group: s.group, Owner: s.member, TTL: s.cfg.LeaseTTL, Remember: remember})
			s.step(Attended{Departed: d, Err: wrap("attend group", err)})
		case Forget:
			rows, err := s.inbox.Forget(ctx, s.group, c.Before, c.Limit)
			s.step(Forgotten{Rows: rows, Err: wrap("forget events", err)})
		}
	}
}

// keepTime turns WaitUntil into Tick.
func (s *session[Tx]) keepTime() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	timer.Stop()
	for {
		select {
		case at, ok := <-s.wake:
			if !ok {
				return
			}
			timer.Stop()
			if !at.IsZero() {
				timer.Reset(max(0, time.Until(at)))
			}
		case <-timer.C:
			s.step(Tick{})
		}
	}
}

func (s *session[Tx]) log(n Note) {
	args := []any{"consumer_group", s.group, "core", s.cfg.Core, "state", n.State, "now", n.Now}
	if n.Name != "" {
		args = append(args, "name", n.Name)
	}
	if n.Err != nil {
		s.cfg.Logger.Warn("consumer state changed", append(args, "error", n.Err)...)
		return
	}
	s.cfg.Logger.Info("consumer state changed", args...)
}

func (s *session[Tx]) crash(point string) {
	if s.cfg.Crash != nil {
		s.cfg.Crash(point)
	}
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
