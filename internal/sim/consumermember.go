package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/consumer"
)

// consumerMember is a process that runs a consumer machine of one group.
type consumerMember struct {
	*process
	inbox   *inboxModel
	machine *consumer.Machine
	sub     *subscription
	tick    int
	working []bool // which workers are
}

var (
	errHandler = errors.New("the handler failed")
	errKilled  = errors.New("the process died in the handler")
	errAsk     = errors.New("another system is asked first")
)

func (w *World) addConsumer(x *inboxModel, i int) {
	c := &consumerMember{process: w.newProcess(x.group.Name+"-"+string(rune('1'+i)), x.outbox), inbox: x}
	c.sub = newSubscription(c)
	c.start, c.end = c.begin, func() { c.in(consumer.Stopping{}) }
	c.jolt = func() { c.in(consumer.Tick{}) }
	w.consumers = append(w.consumers, c)
	w.After(w.between(0, 20*time.Millisecond), c.born)
}

func (c *consumerMember) begin() {
	g := c.inbox.group
	cfg := consumer.Config{
		Owner: c.owner, Concurrency: g.Concurrency, BatchRows: g.BatchRows, BatchBytes: 512, Pass: g.Pass,
		Retry:     settle.Backoff{Base: 20 * time.Millisecond, Max: 300 * time.Millisecond, Attempts: g.Retries},
		RetryPoll: 200 * time.Millisecond, OrderedBySeq: g.OrderedBySeq, GapTimeout: g.GapTimeout, TakeoverAfter: time.Second,
		DedupWindow: g.DedupWindow, LeaseTTL: claimTTL, SuspectAfter: suspectAfter, RateLimit: g.RateLimit, RateBurst: 3,
		Breaker:      consumer.Breaker{Failures: 2, DistinctKeys: 4, Wait: 20 * time.Millisecond, MaxWait: 300 * time.Millisecond},
		ControlsPoll: 200 * time.Millisecond, StoreWait: 10 * time.Millisecond, MaxStoreWait: 200 * time.Millisecond,
	}
	if g.EffectKeys {
		cfg.EffectKey = func(e *settle.Event) string { return e.BizKey }
	}
	c.working = make([]bool, max(1, g.Concurrency))
	c.machine = consumer.NewMachine(g.Name, c.inbox.rules, cfg)
	c.sub.begin()
	c.in(consumer.Tick{})
}

// in passes an input to the machine and does what follows.
func (c *consumerMember) in(in consumer.Input) {
	if !c.alive {
		return
	}
	cmds := append([]consumer.Command(nil), c.machine.Step(c.now(), in)...)
	life := c.life
	for _, cmd := range cmds {
		if c.life != life || !c.alive {
			return
		}
		c.do(cmd)
	}
}

func (c *consumerMember) do(cmd consumer.Command) {
	switch cmd := cmd.(type) {
	case consumer.WaitUntil:
		c.tick++
		if tick := c.tick; !cmd.At.IsZero() {
			c.alarm(cmd.At, func() bool { return tick == c.tick }, func() { c.in(consumer.Tick{}) })
		}
	case consumer.Note:
		c.w.probes.hit("consumer note " + cmd.State + " " + cmd.Now)
	case consumer.Complete:
		c.sub.completed(cmd)
	case consumer.Halt:
		c.w.fail("no needless halt", "%s stopped for good: %v", c.name, cmd.Err)
	case consumer.Stopped:
		c.stoppedCleanly()
	default:
		c.mayDie()
		c.ask(cmd)
	}
}

func (c *consumerMember) stoppedCleanly() {
	c.w.probes.hit("consumer ended cleanly")
	c.w.hist.note(c.w.Since(), c.name, "ends")
	owner := c.owner
	c.call(func() error { c.inbox.Release(owner); return nil }, func(error) {})
	c.gone()
}

// ask does the commands that are answered.
func (c *consumerMember) ask(cmd consumer.Command) {
	x := c.inbox
	switch cmd := cmd.(type) {
	case consumer.Apply:
		c.apply(cmd)
	case consumer.LoadDue:
		var due settle.Due
		c.call(func() error { due = x.Due(cmd.Limit); return nil }, func(err error) { c.in(consumer.DueLoaded{Due: due, Err: err}) })
	case consumer.LoadControls:
		var ctrl settle.Controls
		c.call(func() error { ctrl = x.ctrl; return nil }, func(err error) { c.in(consumer.ControlsLoaded{Controls: ctrl, Err: err}) })
	case consumer.Attend:
		var d settle.Departed
		r := settle.Attendance{Group: x.group.Name, Owner: c.owner, TTL: claimTTL, Remember: time.Minute}
		c.call(func() error { d = x.Attend(r); return nil }, func(err error) { c.in(consumer.Attended{Departed: d, Err: err}) })
	case consumer.Forget:
		n := 0
		c.call(func() error { n = x.Forget(cmd.Before, cmd.Limit); return nil }, func(err error) { c.in(consumer.Forgotten{Rows: n, Err: err}) })
	default:
		panic("unknown consumer command")
	}
}

// apply runs a work at the inbox. The handlers run there too, as they do in the
// transaction.
func (c *consumerMember) apply(cmd consumer.Apply) {
	cmd.Work.Items = slices.Clone(cmd.Work.Items) // the machine uses them again once it has an answer
	run := &working{c: c, cmd: cmd, life: c.life, slot: slices.Index(c.working, false)}
	c.working[run.slot] = true
	if !cmd.Hold {
		run.apply()
		return
	}
	h := settle.Hand{Owner: c.owner, Slot: run.slot + 1}
	for i := range cmd.Work.Items {
		if it := &cmd.Work.Items[i]; it.Intent == settle.IntentHandle {
			h.EventIDs = append(h.EventIDs, it.Record.Event.ID)
		}
	}
	c.call(func() error { c.inbox.Hold(h); return nil }, func(err error) {
		if err != nil {
			run.end(consumer.Applied{ID: cmd.ID, Err: err})
			return
		}
		c.mayDie()
		run.apply()
	})
}

// end answers the machine.
func (r *working) end(in consumer.Applied) {
	r.c.working[r.slot] = false
	r.c.in(in)
}

// apply is one transaction, or one that is rolled back because another system
// is to be asked first: then there is a second one once it has answered.
func (r *working) apply() {
	c, w := r.c, r.c.w
	var results []settle.Result
	c.call(func() (err error) {
		if c.life != r.life || c.stopped {
			// The process is what runs the handlers: without it the
			// transaction never commits.
			return errDown
		}
		before := r.beforeCommit
		if r.cmd.Batch == "" {
			before = nil
		}
		results, err = c.inbox.Apply(r.cmd.Work, r.handle, before)
		w.hist.note(w.Since(), c.name, "applies", int64(r.cmd.ID), len(r.cmd.Work.Items), err)
		return err
	}, func(err error) {
		if r.killed {
			return
		}
		if err != nil {
			results = nil
		}
		if len(results) == 1 && errors.Is(results[0].Err, errAsk) {
			r.ask()
			return
		}
		r.found(results, err)
		r.end(consumer.Applied{ID: r.cmd.ID, Results: results, Err: err, BatchErr: r.batchErr, Times: r.times})
	})
}

// ask takes the time of a call of another system, which may be longer than a
// lease.
func (r *working) ask() {
	c, w := r.c, r.c.w
	took := w.between(0, 2*w.CallTime)
	if w.chance(0.1) {
		took = w.between(0, 2*w.LeaseTTL)
	}
	w.probes.hit("another system asked")
	w.hist.note(w.Since(), c.name, "asks", int64(r.cmd.ID), int64(took))
	c.mayDie()
	c.later(took, func() {
		r.answered = true
		r.apply()
	})
}

// found counts what the second transaction finds that was not so in the first.
func (r *working) found(results []settle.Result, err error) {
	switch {
	case !r.answered:
	case errors.Is(err, settle.ErrFenced):
		r.c.w.probes.hit("partition lost while another system was asked")
	case len(results) == 1 && (results[0].Verdict == settle.VerdictDuplicate || results[0].Verdict == settle.VerdictStored):
		r.c.w.probes.hit("event done while another system was asked")
	}
}

// working is one work's handlers at work.
type working struct {
	c        *consumerMember
	cmd      consumer.Apply
	life     int
	slot     int // of the worker
	batch    []effect
	batchErr error
	killed   bool
	answered bool // by the other system
	times    []consumer.HandlerTime
}

func (r *working) handle(i int) error {
	it := &r.cmd.Work.Items[i]
	e := it.Record.Event
	if r.killed {
		return errKilled
	}
	r.times = append(r.times, consumer.HandlerTime{Type: e.Type, Calls: 1, Took: r.c.w.between(0, 4*time.Millisecond), Compensation: it.Compensate})
	r.c.w.check.handled(r.c.inbox, e, it.Attempt)
	if r.cmd.Alone && !r.answered {
		return errAsk
	}
	if r.cmd.Batch != "" && e.Type == r.cmd.Batch {
		r.batch = append(r.batch, effect{e, it.AcceptDuplicate})
		return nil
	}
	var err error
	if !it.Compensate {
		err = r.outcome(e)
	}
	if err == nil && !r.killed {
		err = r.c.w.story.handle(r.c.inbox, it)
	}
	if _, rejected := settle.Rejected(err); err == nil || rejected {
		r.c.inbox.effect(effect{e, it.AcceptDuplicate})
	}
	return err
}

// beforeCommit is where a batch handler gets its events.
func (r *working) beforeCommit() error {
	if r.killed {
		return errKilled
	}
	for _, e := range r.batch {
		if err := r.outcome(e.event); err != nil {
			if _, rejected := settle.Rejected(err); !rejected {
				r.batch, r.batchErr = nil, err
				return err
			}
		}
	}
	for _, e := range r.batch {
		r.c.inbox.effect(e)
	}
	r.batch = nil
	return nil
}

// outcome is what the handler makes of e this time.
func (r *working) outcome(e *settle.Event) error {
	w, g := r.c.w, r.c.inbox.group
	if g.Unavailable && w.unwellNow() {
		w.probes.hit("handler unavailable")
		return settle.Unavailable(errHandler)
	}
	f := w.fates[e.ID]
	h := f.byGroup[g.Name]
	if h == nil || h.left == 0 || (f.cured && h.kind != rejects) {
		return nil
	}
	if h.left > 0 {
		h.left--
	}
	switch h.kind {
	case fails:
		return errHandler
	case failsForGood:
		return settle.Permanent(errHandler)
	case rejects:
		return settle.Reject("out of stock")
	case panics:
		return &consumer.PanicError{Value: "nil map"}
	case kills:
		r.killed = true
		w.probes.hit("event killed the consumer")
		r.c.crash("of event " + e.ID)
		return errKilled
	}
	return nil
}
