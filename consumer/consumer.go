package consumer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/settlemq/settle"
)

// Consumer runs the handlers of one consumer group. Tx is the transaction of
// the inbox's database.
type Consumer[Tx any] struct {
	group    string
	sub      settle.Subscriber
	inbox    settle.Inbox[Tx]
	cfg      Config
	handlers map[string]*handler[Tx]
	// compensations find their handlers in Run, so that the order in which both
	// are registered doesn't matter.
	compensations map[string]*handler[Tx]
	wrong         error // the first thing that was registered wrongly

	mu      sync.Mutex
	session *session[Tx] // of the last Run
}

// New returns a consumer of group that takes records from sub and records what
// it has done in inbox. It does no I/O; what is wrong with cfg is said by Run.
func New[Tx any](group string, sub settle.Subscriber, inbox settle.Inbox[Tx], cfg Config) *Consumer[Tx] {
	return &Consumer[Tx]{
		group: group, sub: sub, inbox: inbox, cfg: cfg,
		handlers: make(map[string]*handler[Tx]), compensations: make(map[string]*handler[Tx]),
	}
}

// Handle registers h for an event type. Types without a handler are ignored
// and counted. It is called before Run.
func (c *Consumer[Tx]) Handle(eventType string, h Handler[Tx]) {
	c.HandleWith(eventType, HandlerOptions{}, h)
}

// HandleWith registers h with options.
func (c *Consumer[Tx]) HandleWith(eventType string, o HandlerOptions, h Handler[Tx]) {
	c.register(c.handlers, &handler[Tx]{eventType: eventType, options: o, one: h}, h == nil)
}

// HandleBatch registers a handler that takes many events of a type at once.
func (c *Consumer[Tx]) HandleBatch(eventType string, h BatchHandler[Tx]) {
	c.register(c.handlers, &handler[Tx]{eventType: eventType, many: h}, h == nil)
}

// Compensate registers what runs in place of the handler when a person has
// given up on a dead letter of the event type (govern.DeadLetters.Compensate):
// h undoes what may have happened of the event, outside too, and tells the
// others. It has the transaction, the answers and the retries of a handler.
//
// h is idempotent. When the world has moved on it does nothing and returns nil,
// or settle.Reject("moved on: …"), which is recorded and shown. The event is
// done then either way, as COMPENSATED. It is called before Run.
func (c *Consumer[Tx]) Compensate(eventType string, h Handler[Tx]) {
	c.CompensateWith(eventType, HandlerOptions{}, h)
}

// CompensateWith registers a compensation with options. Those of the event
// type's handler don't count for it.
func (c *Consumer[Tx]) CompensateWith(eventType string, o HandlerOptions, h Handler[Tx]) {
	c.register(c.compensations, &handler[Tx]{eventType: eventType, options: o, one: h, compensates: true}, h == nil)
}

func (c *Consumer[Tx]) register(all map[string]*handler[Tx], h *handler[Tx], missing bool) {
	what := "handler"
	if h.compensates {
		what = "compensation"
	}
	var wrong error
	switch {
	case h.eventType == "":
		wrong = fmt.Errorf("register %s: the event type is empty", what)
	case missing:
		wrong = fmt.Errorf("register %s of %q: it is nil", what, h.eventType)
	case all[h.eventType] != nil:
		wrong = fmt.Errorf("register %s of %q: there is one already", what, h.eventType)
	}
	if c.wrong == nil {
		c.wrong = wrong
	}
	if wrong == nil {
		all[h.eventType] = h
	}
}

// Run consumes until ctx is done: it then finishes the transactions in flight
// (cancelled after Config.StopTimeout), gives its partitions back, and returns
// nil. It waits out everything that waiting can cure. It returns an error for
// what it can't: a wrong Config or registration, settle.ErrNewGeneration, an
// error of Subscribe. No goroutine outlives it. One Run at a time.
func (c *Consumer[Tx]) Run(ctx context.Context) error {
	cfg, err := c.check()
	if err != nil {
		return err
	}
	s := newSession(c, cfg)
	c.mu.Lock()
	c.session = s
	c.mu.Unlock()
	if err := s.run(ctx); err != nil {
		return fmt.Errorf("consume as group %q: %w", c.group, err)
	}
	return nil
}

func (c *Consumer[Tx]) check() (Config, error) {
	cfg := c.cfg.withDefaults()
	switch {
	case c.group == "":
		return cfg, errors.New("consumer config: the group is empty")
	case c.wrong != nil:
		return cfg, c.wrong
	}
	for eventType, h := range c.compensations {
		if c.handlers[eventType] == nil {
			return cfg, fmt.Errorf("register compensation of %q: the event type has no handler", eventType)
		}
		c.handlers[eventType].compensation = h
	}
	if cfg.Owner == "" {
		cfg.Owner = newOwner()
	}
	return cfg, cfg.validate()
}

// Stats returns what the last Run has done so far.
func (c *Consumer[Tx]) Stats() Stats {
	c.mu.Lock()
	s := c.session
	c.mu.Unlock()
	if s == nil {
		return Stats{Group: c.group, Core: c.cfg.Core}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.Stats(time.Now())
}

// newOwner names a member so that no other one, here or after a restart, has
// the same name.
func newOwner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), rand.Text()[:8])
}
