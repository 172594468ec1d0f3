package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// rig drives a machine against a fakeInbox by hand, answering its commands at
// once, or when the test says so.
type rig struct {
	t       testing.TB
	m       *Machine
	in      *fakeInbox
	now     time.Time
	handle  func(e *settle.Event) error
	undo    func(e *settle.Event) error // the compensation
	answers map[DeliveryID]error        // of deliveries
	notes   []Note
	works   []settle.Work // every Apply, in order
	batches []string
	alone   []bool
	handled []string
	undone  []string // for which the compensation was called
	wake    time.Time
	halted  error
	stopped bool

	lives  int    // how often the process began anew
	member string // its name where the broker assigns partitions

	manual  bool // Apply is answered by finish only
	pending []Apply
	spent   time.Duration // told as the time of each call
}

func newRig(t testing.TB, cfg Config, types ...string) *rig {
	rules := map[string]HandlerRule{}
	for _, name := range types {
		rules[name] = HandlerRule{}
	}
	return newRigWith(t, cfg, rules)
}

func newRigWith(t testing.TB, cfg Config, rules map[string]HandlerRule) *rig {
	r := &rig{t: t, now: epoch, answers: map[DeliveryID]error{}, handle: func(*settle.Event) error { return nil }}
	r.undo = func(*settle.Event) error { return nil }
	r.m = NewMachine("g", rules, cfg)
	r.in = newFakeInbox(func() time.Time { return r.now })
	r.step(Tick{})
	return r
}

// step passes in and answers every command but, if manual, Apply.
func (r *rig) step(in Input) {
	queue := []Input{in}
	for n := 0; len(queue) > 0; n++ {
		if n > 100000 {
			r.t.Fatal("the machine never comes to rest")
		}
		next := queue[0]
		queue = queue[1:]
		for _, c := range r.m.Step(r.now, next) {
			switch c := c.(type) {
			case Apply:
				w := c.Work
				w.Items = slices.Clone(w.Items)
				r.works = append(r.works, w)
				r.batches, r.alone = append(r.batches, c.Batch), append(r.alone, c.Alone)
				if r.manual {
					r.pending = append(r.pending, c)
				} else {
					queue = append(queue, r.apply(c))
				}
			case Complete:
				if _, twice := r.answers[c.ID]; twice {
					r.t.Fatalf("delivery %d is answered twice", c.ID)
				}
				r.answers[c.ID] = c.Err
			case LoadDue:
				due, err := r.in.Due(context.Background(), "g", c.Limit)
				queue = append(queue, DueLoaded{due, err})
			case LoadControls:
				cs, err := r.in.Controls(context.Background())
				queue = append(queue, ControlsLoaded{cs, err})
			case Attend:
				d, err := r.in.Attend(context.Background(), settle.Attendance{Owner: r.member, TTL: r.m.cfg.LeaseTTL})
				queue = append(queue, Attended{d, err})
			case Forget:
				n, err := r.in.Forget(context.Background(), "g", c.Before, c.Limit)
				queue = append(queue, Forgotten{n, err})
			case WaitUntil:
				r.wake = c.At
			case Note:
				r.notes = append(r.notes, c)
			case Halt:
				r.halted = c.Err
			case Stopped:
				r.stopped = true
			}
		}
	}
}

// apply does what a runner does with an Apply.
func (r *rig) apply(c Apply) Applied {
	r.hold(c)
	var events []*settle.Event
	var batchErr error
	w := c.Work
	times := map[HandlerTime]int{}
	w.BeforeCommit = func(context.Context) error {
		if len(events) == 0 {
			return nil
		}
		for _, e := range events {
			if err := r.handle(e); err != nil {
				batchErr = err
				return err
			}
		}
		for _, e := range events {
			r.in.effects = append(r.in.effects, e.ID)
		}
		return nil
	}
	results, err := r.in.Apply(context.Background(), w, func(_ context.Context, tx *fakeTx, i int) error {
		e := w.Items[i].Record.Event
		times[HandlerTime{Type: e.Type, Compensation: w.Items[i].Compensate}]++
		if w.Items[i].Compensate {
			r.undone = append(r.undone, e.ID)
			return r.undo(e)
		}
		if c.Batch != "" {
			events = append(events, e)
			return nil
		}
		r.handled = append(r.handled, e.ID)
		if err := r.handle(e); err != nil {
			if _, no := settle.Rejected(err); !no {
				return err
			}
			tx.effect(e)
			return err
		}
		tx.effect(e)
		return nil
	})
	out := Applied{ID: c.ID, Results: results, Err: err, BatchErr: batchErr}
	for t, n := range times {
		if r.spent > 0 {
			t.Calls, t.Took = n, time.Duration(n)*r.spent
			out.Times = append(out.Times, t)
		}
	}
	return out
}

// hold writes down what is to be handled, if the machine wants that.
func (r *rig) hold(c Apply) {
	if !c.Hold {
		return
	}
	h := settle.Hand{Owner: r.member}
	for _, it := range c.Work.Items {
		if it.Intent == settle.IntentHandle {
			h.EventIDs = append(h.EventIDs, it.Record.Event.ID)
		}
	}
	_ = r.in.Hold(context.Background(), h)
}

// finish answers the oldest pending Apply.
func (r *rig) finish() {
	r.t.Helper()
	if len(r.pending) == 0 {
		r.t.Fatal("no Apply is in flight")
	}
	c := r.pending[0]
	r.pending = r.pending[1:]
	r.step(r.apply(c))
}

// pass lets time pass: the machine is ticked whenever it asked to be.
func (r *rig) pass(d time.Duration) {
	end := r.now.Add(d)
	for n := 0; !r.wake.IsZero() && !r.wake.After(end); n++ {
		if n > 100000 {
			r.t.Fatal("the machine wakes for ever")
		}
		if r.wake.After(r.now) {
			r.now = r.wake
		}
		r.step(Tick{})
	}
	r.now = end
	r.step(Tick{})
}

// event returns the n-th event of key, of type "t".
func event(key string, n int) *settle.Event {
	return &settle.Event{ID: fmt.Sprintf("%s%d", key, n), Type: "t", AggregateID: key, Version: 1, AppendedAt: epoch}
}

func typed(typ, key string, n int) *settle.Event {
	e := event(key, n)
	e.Type = typ
	return e
}

func records(from int64, events ...*settle.Event) []settle.Record {
	var rs []settle.Record
	for i, e := range events {
		rs = append(rs, settle.Record{Position: from + int64(i), Event: e, Key: e.AggregateID, Raw: []byte("0123456789")})
	}
	return rs
}

// deliver passes events to partition p, from position 1 on, as delivery id.
func (r *rig) deliver(id DeliveryID, p int, events ...*settle.Event) {
	r.step(Delivered{id, r.part(p), records(1, events...)})
}

func (r *rig) part(p int) settle.Partition {
	r.in.epochs[partName{"topic", p}] = 1
	return settle.Partition{Topic: "topic", Number: p, Owner: "me", Epoch: 1, Generation: "g"}
}

func (r *rig) wantAcked(ids ...DeliveryID) {
	r.t.Helper()
	for _, id := range ids {
		if err, ok := r.answers[id]; !ok || err != nil {
			r.t.Errorf("delivery %d is answered %v with %v, want acknowledged", id, ok, err)
		}
	}
}

func (r *rig) wantEffects(ids ...string) {
	r.t.Helper()
	if got := r.in.applied(); !slices.Equal(got, ids) {
		r.t.Errorf("effects are %v, want %v", got, ids)
	}
}

func (r *rig) wantRow(id string, attempt int, class settle.Class, dead bool) {
	r.t.Helper()
	it, isDead, ok := r.in.row(id)
	if !ok || isDead != dead || it.Attempt != attempt || it.Class != class {
		r.t.Errorf("retry row of %s: there %v, dead %v, attempt %d, class %s; want dead %v, attempt %d, class %s",
			id, ok, isDead, it.Attempt, it.Class, dead, attempt, class)
	}
}

func (r *rig) wantNote(state, now string) {
	r.t.Helper()
	if !slices.ContainsFunc(r.notes, func(n Note) bool { return n.State == state && n.Now == now }) {
		r.t.Errorf("no note says %s %s: %v", state, now, r.notes)
	}
}

var errBoom = errors.New("boom")

// failing returns a handler that fails for the events named.
func failing(err error, ids ...string) func(*settle.Event) error {
	return func(e *settle.Event) error {
		if slices.Contains(ids, e.ID) {
			return err
		}
		return nil
	}
}
