package consumer

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/settlemq/settle"
)

// call runs the handlers of one work at a time. A worker has one and uses it
// again and again, so that an event costs no goroutine and no context.
type call[Tx any] struct {
	s    *session[Tx]
	slot int             // of this worker
	work context.Context // ends when the consumer can't wait any longer
	cmd  Apply

	times []HandlerTime
	// events wait for the batch handler, which is called before the commit.
	events   []*settle.Event
	tx       Tx
	batchErr error
	// asking is what the External handler of this work asks, asker that handler;
	// both are nil where there is none.
	asking *asking
	asker  *handler[Tx]

	limit limit
}

// workOff applies works until there are no more.
func (s *session[Tx]) workOff(ctx context.Context, slot int) {
	c := &call[Tx]{s: s, slot: slot, work: context.WithValue(ctx, askingKey{}, (*asking)(nil))}
	for cmd := range s.works {
		s.step(c.apply(cmd))
	}
}

func (c *call[Tx]) apply(cmd Apply) Applied {
	c.cmd, c.times, c.events, c.batchErr, c.asking, c.asker = cmd, c.times[:0], c.events[:0], nil, nil, nil
	if cmd.Batch != "" || c.s.cfg.Crash != nil {
		cmd.Work.BeforeCommit = c.beforeCommit
	}
	// Crash here: nothing was written; the records are delivered again.
	c.s.crash("consume.before_apply")
	if err := c.hold(); err != nil {
		return Applied{ID: cmd.ID, Err: err}
	}
	results, err := c.s.inbox.Apply(c.work, cmd.Work, c.handle)
	for err == nil && c.asks(results) {
		c.answer(c.asker)
		results, err = c.s.inbox.Apply(c.work, cmd.Work, c.handle)
	}
	c.limit.end()
	if err == nil && c.batchErr == nil && len(c.events) > 0 {
		err = errors.New("apply work: the store has not called BeforeCommit; batch handlers can't run on it")
	}
	if err == nil {
		// Crash here: all is durable; what is delivered again is found in the log.
		c.s.crash("consume.after_commit")
	}
	return Applied{ID: cmd.ID, Results: results, Err: wrap("apply work", err), BatchErr: c.batchErr, Times: c.times}
}

// hold writes down what is about to be handled, where that is asked for.
func (c *call[Tx]) hold() error {
	if !c.cmd.Hold {
		return nil
	}
	h := settle.Hand{Group: c.s.group, Owner: c.s.member, Slot: c.slot}
	for i := range c.cmd.Work.Items {
		if it := &c.cmd.Work.Items[i]; it.Intent == settle.IntentHandle {
			h.EventIDs = append(h.EventIDs, it.Record.Event.ID)
		}
	}
	// Crash here: others learn of it as soon as this member is silent for a
	// lease's time, and try these events alone.
	return wrap("write down events in hand", c.s.inbox.Hold(c.work, h))
}

// handle is called by the inbox for each item that is new.
func (c *call[Tx]) handle(ctx context.Context, tx Tx, i int) error {
	it := &c.cmd.Work.Items[i]
	e := it.Record.Event
	h := c.s.handlers[e.Type]
	if it.Compensate {
		h = h.compensation
	}
	e, err := h.upcast(e)
	if err != nil {
		return err
	}
	if h.many != nil {
		c.events, c.tx = append(c.events, e), tx
		return nil
	}
	if h.options.External {
		if c.asking == nil {
			c.asking, c.asker = &asking{}, h
		}
		ctx = c.asking.begin(ctx)
	}
	err = c.timed(ctx, h, 1, func(ctx context.Context) error { return h.one(ctx, tx, e) })
	if c.asking != nil && c.asking.question != nil {
		return errAsk // whatever the handler makes of it: nothing may be kept
	}
	if err == nil {
		// Crash here: the effect is rolled back with everything else.
		c.s.crash("consume.in_handler")
	}
	return err
}

// beforeCommit gives the batch handler what the inbox found new.
func (c *call[Tx]) beforeCommit(ctx context.Context) error {
	if len(c.events) > 0 {
		h := c.s.handlers[c.cmd.Batch]
		n := len(c.events)
		c.batchErr = c.timed(ctx, h, n, func(ctx context.Context) error { return h.many(ctx, c.tx, c.events) })
		clear(c.events)
		c.events = c.events[:0]
		if c.batchErr != nil {
			return c.batchErr
		}
		c.s.crash("consume.in_handler")
	}
	// Crash here: nothing of the transaction is kept.
	c.s.crash("consume.before_commit")
	return nil
}

// timed runs a handler for n events within its time and notes how long it took.
func (c *call[Tx]) timed(ctx context.Context, h *handler[Tx], n int, run func(context.Context) error) error {
	timeout := h.options.Timeout
	if timeout <= 0 {
		timeout = c.s.cfg.HandlerTimeout
	}
	began := time.Now()
	err := protect(c.limit.start(ctx, timeout), run)
	expired := c.limit.stop()
	c.note(h, n, time.Since(began))
	switch {
	case err == nil && !expired:
		return nil
	case c.work.Err() != nil: // the consumer is stopping: not the handler's fault
		return fmt.Errorf("%w: %w", context.Canceled, errors.Join(err, c.work.Err()))
	case expired && err != nil:
		return fmt.Errorf("%w of %v: %w", ErrHandlerTimeout, timeout, err)
	case expired:
		return fmt.Errorf("%w of %v", ErrHandlerTimeout, timeout)
	}
	return err
}

// protect turns a panic into an error.
func protect(ctx context.Context, run func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: string(debug.Stack())}
		}
	}()
	return run(ctx)
}

func (c *call[Tx]) note(h *handler[Tx], n int, took time.Duration) {
	for i := range c.times {
		if t := &c.times[i]; t.Type == h.eventType && t.Compensation == h.compensates {
			t.Calls += n
			t.Took += took
			return
		}
	}
	c.times = append(c.times, HandlerTime{Type: h.eventType, Calls: n, Took: took, Compensation: h.compensates})
}
