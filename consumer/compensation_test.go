package consumer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/settlemq/settle"
)

var undoable = map[string]HandlerRule{"t": {Compensation: &HandlerRule{}}}

// compensate is what a person's wish does to the row of a dead event.
func (f *fakeInbox) compensate(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.rows {
		if r := &f.rows[i]; logID(&r.item.Record) == id {
			r.dead, r.item.Compensate, r.item.Attempt, r.item.NextAt = false, true, 0, f.now()
		}
	}
}

// newLetter returns a rig in whose group a1 is dead and a2 waits behind it.
func newLetter(t *testing.T, cfg Config, rules map[string]HandlerRule) *rig {
	r := newRigWith(t, cfg, rules)
	r.handle = failing(settle.Permanent(errBoom), "a1")
	r.deliver(1, 0, event("a", 1), event("a", 2))
	r.wantRow("a1", 1, settle.ClassPermanent, true)
	r.handled = nil
	return r
}

func TestACompensationRunsInPlaceOfTheHandlerBeforeWhatWaitsBehind(t *testing.T) {
	r := newLetter(t, Config{}, undoable)
	r.in.compensate("a1")
	r.pass(5 * time.Second)
	if !slices.Equal(r.undone, []string{"a1"}) || !slices.Equal(r.handled, []string{"a2"}) {
		t.Errorf("compensated are %v and handled %v, want a1 and a2", r.undone, r.handled)
	}
	if s := r.m.Stats(r.now); s.Compensated != 1 || s.Applied != 1 || s.Rejected != 0 {
		t.Errorf("stats are %+v", s)
	}
	r.deliver(2, 0, event("a", 1))
	r.wantAcked(2)
	if len(r.undone) != 1 || len(r.handled) != 1 {
		t.Error("what was compensated is touched again when it is delivered again")
	}
}

func TestACompensationThatFindsNothingToDoIsDone(t *testing.T) {
	r := newLetter(t, Config{}, undoable)
	r.undo = func(*settle.Event) error { return settle.Reject("moved on: it was shipped") }
	r.in.compensate("a1")
	r.pass(5 * time.Second)
	r.wantEffects("a2")
	if s := r.m.Stats(r.now); s.Compensated != 1 || s.Rejected != 0 || s.Failed != 1 {
		t.Errorf("stats are %+v", s)
	}
}

func TestWithoutACompensationTheLetterIsOpenAgainAtOnce(t *testing.T) {
	r := newLetter(t, Config{}, map[string]HandlerRule{"t": {}})
	r.in.compensate("a1")
	r.pass(5 * time.Second)
	r.wantRow("a1", 0, settle.ClassPermanent, true)
	it, _, _ := r.in.row("a1")
	if want := "group g has no compensation for event type t; before that: boom"; it.Cause != want {
		t.Errorf("the reason is %q, want %q", it.Cause, want)
	}
	if len(r.handled) != 0 || len(r.undone) != 0 {
		t.Errorf("handled are %v and compensated %v, want none", r.handled, r.undone)
	}
}

func TestACompensationThatFailsIsRetriedAndDiesWithItsOwnReason(t *testing.T) {
	r := newLetter(t, Config{Retry: settle.Backoff{Attempts: 3}}, undoable)
	r.undo = func(*settle.Event) error { return errors.New("provider said 500") }
	r.in.compensate("a1")
	r.pass(2 * time.Second)
	r.wantRow("a1", 1, settle.ClassHandler, false)
	r.pass(time.Minute)
	r.wantRow("a1", 3, settle.ClassHandler, true)
	it, _, _ := r.in.row("a1")
	if it.Cause != "compensation: provider said 500" || !it.Compensate {
		t.Errorf("the letter says %q", it.Cause)
	}
	if len(r.undone) != 3 || len(r.handled) != 0 {
		t.Errorf("%d attempts of the compensation and %d of the handler, want 3 and none", len(r.undone), len(r.handled))
	}
}

func TestACompensationHasABreakerOfItsOwn(t *testing.T) {
	r := newLetter(t, Config{Breaker: Breaker{Failures: 1, Wait: time.Hour, MaxWait: time.Hour}}, undoable)
	r.handle = failing(settle.Unavailable(errBoom), "b1")
	r.deliver(2, 1, event("b", 1))
	r.wantNote("breaker", "open")
	r.in.compensate("a1")
	r.pass(10 * time.Second)
	if !slices.Equal(r.undone, []string{"a1"}) {
		t.Error("the handler's breaker holds the compensation up")
	}

	r = newLetter(t, Config{Breaker: Breaker{Failures: 1, Wait: time.Second, MaxWait: time.Second}}, undoable)
	away := true
	r.undo = func(*settle.Event) error {
		if away {
			return settle.Unavailable(errBoom)
		}
		return nil
	}
	r.in.compensate("a1")
	r.pass(30 * time.Second)
	if s := r.m.Stats(r.now); !slices.Equal(s.Open, []string{"compensation of t"}) || s.Dead != 1 {
		t.Errorf("stats are %+v; want an open breaker of the compensation and no more dead letters", s)
	}
	r.deliver(2, 1, event("b", 1))
	r.wantAcked(2)
	away = false
	r.pass(5 * time.Second)
	r.wantEffects("b1", "a2")
	if s := r.m.Stats(r.now); len(s.Open) != 0 || s.Compensated != 1 {
		t.Errorf("stats are %+v", s)
	}
}

func TestACompensationHasNoEffectKey(t *testing.T) {
	r := newLetter(t, Config{EffectKey: func(*settle.Event) string { return "k" }}, undoable)
	r.in.compensate("a1")
	r.pass(5 * time.Second)
	r.wantEffects("a2") // which has the same key
}

func TestASlowCompensationDoesNotShrinkTheWorksOfTheHandler(t *testing.T) {
	r := newRigWith(t, Config{MaxBatchTime: 10 * time.Millisecond}, undoable)
	r.handle = failing(settle.Permanent(errBoom), "a1")
	r.deliver(1, 0, event("a", 1))
	r.in.compensate("a1")
	r.spent = 8 * time.Millisecond
	r.pass(5 * time.Second)
	r.spent = 0
	if len(r.undone) != 1 {
		t.Fatalf("compensated are %v", r.undone)
	}
	before := len(r.works)
	r.deliver(2, 1, event("b", 1), event("c", 1), event("d", 1))
	if n := len(r.works[before].Items); n != 3 {
		t.Errorf("the work after a slow compensation has %d events, want all 3", n)
	}
	c := &call[*fakeTx]{}
	h := &handler[*fakeTx]{eventType: "t"}
	c.note(h, 1, time.Second)
	c.note(&handler[*fakeTx]{eventType: "t", compensates: true}, 1, time.Minute)
	c.note(h, 1, time.Second)
	want := []HandlerTime{{Type: "t", Calls: 2, Took: 2 * time.Second}, {Type: "t", Calls: 1, Took: time.Minute, Compensation: true}}
	if !slices.Equal(c.times, want) {
		t.Errorf("times are %v, want %v", c.times, want)
	}
}

func TestACompensationWithOutsideEffectsRunsAloneWhateverItsHandlerIs(t *testing.T) {
	r := newRigWith(t, Config{}, map[string]HandlerRule{"t": {Batch: true, Compensation: &HandlerRule{External: true}}, "u": {}})
	r.handle = failing(settle.Permanent(errBoom), "a1", "b1")
	r.deliver(1, 0, event("a", 1))
	r.deliver(2, 1, event("b", 1))
	r.deliver(3, 0, typed("u", "a", 2), typed("u", "b", 2))
	r.in.compensate("a1")
	r.in.compensate("b1")
	r.pass(10 * time.Second)
	r.wantEffects("a2", "b2")
	if len(r.undone) != 2 {
		t.Fatalf("compensated are %v", r.undone)
	}
	for i, w := range r.works {
		for _, it := range w.Items {
			if it.Compensate && it.Intent == settle.IntentHandle && (len(w.Items) != 1 || !r.alone[i] || r.batches[i] != "") {
				t.Errorf("work %d compensates with %d items, alone %v, batch %q", i, len(w.Items), r.alone[i], r.batches[i])
			}
		}
	}
}

func TestACompensationThatKillsTheProcessBecomesADeadLetterAgain(t *testing.T) {
	r := newLetter(t, Config{Retry: settle.Backoff{Attempts: 3}}, undoable)
	r.in.compensate("a1")
	for range 10 {
		// The process dies in the compensation: the transaction that runs it
		// never ends, what was written down before it stays.
		r.pending = nil
		r.m = NewMachine("g", undoable, r.m.cfg)
		r.manual = true
		r.step(Tick{})
		for len(r.pending) > 0 && r.pending[0].Work.Items[0].Intent != settle.IntentHandle {
			r.finish()
		}
		r.now = r.now.Add(time.Minute)
	}
	r.wantRow("a1", 3, settle.ClassCrashLoop, true)
	if it, _, _ := r.in.row("a1"); !strings.Contains(it.Cause, "the process died in attempt 3") {
		t.Errorf("the letter says %q", it.Cause)
	}
}

func TestTheConsumerCallsTheRegisteredCompensationWithItsOwnOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Config{})
		s.c.CompensateWith("t", HandlerOptions{MaxVersion: 2, Upcast: func(e *settle.Event) (*settle.Event, error) {
			e.Version = 2
			return e, nil
		}}, func(_ context.Context, tx *fakeTx, e *settle.Event) error {
			if e.Version != 2 {
				return errors.New("not brought up")
			}
			tx.effect(&settle.Event{ID: "undone " + e.ID})
			return nil
		})
		s.c.Handle("t", func(context.Context, *fakeTx, *settle.Event) error { return settle.Permanent(errBoom) })
		s.broker.publish(0, event("a", 1))
		s.start()
		s.in.compensate("a1")
		time.Sleep(3 * time.Second)
		synctest.Wait()
		s.wantEffects("undone a1")
		if n := s.c.Stats().Compensated; n != 1 {
			t.Errorf("%d were compensated, want 1", n)
		}
		s.stop()
	})
}

func TestACompensationIsRegisteredOnceAndForAnEventTypeThatIsHandled(t *testing.T) {
	undo := func(context.Context, *fakeTx, *settle.Event) error { return nil }
	for says, register := range map[string]func(c *Consumer[*fakeTx]){
		`register compensation of "t": the event type has no handler`: func(c *Consumer[*fakeTx]) { c.Compensate("t", undo) },
		`register compensation of "t": there is one already`: func(c *Consumer[*fakeTx]) {
			c.Compensate("t", undo)
			c.Compensate("t", undo)
		},
		`register compensation of "t": it is nil`:        func(c *Consumer[*fakeTx]) { c.Compensate("t", nil) },
		"register compensation: the event type is empty": func(c *Consumer[*fakeTx]) { c.Compensate("", undo) },
	} {
		c := New("g", newFakeBroker(1), newFakeInbox(time.Now), Config{})
		register(c)
		if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("Run says %v, want %s", err, says)
		}
	}
}
