package consumer

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

func TestOneTransactionTakesWhatWaitsOfAllPartitions(t *testing.T) {
	r := newRig(t, Config{}, "t")
	r.manual = true
	r.deliver(1, 0, event("a", 1), event("a", 2))
	r.deliver(2, 1, event("b", 1))
	r.deliver(3, 2, event("c", 1))
	if len(r.pending) != 1 || len(r.works[0].Items) != 2 {
		t.Fatalf("the first delivery is not applied at once and alone: %d works", len(r.works))
	}
	r.finish()
	if len(r.works) != 2 || len(r.works[1].Items) != 2 || len(r.works[1].Floors) != 2 {
		t.Fatalf("what waited is not merged: %v", r.works)
	}
	r.wantAcked(1)
	if _, early := r.answers[2]; early {
		t.Fatal("a delivery is acknowledged before its transaction has ended")
	}
	r.finish()
	r.wantAcked(2, 3)
	r.wantEffects("a1", "a2", "b1", "c1")
}

func TestATransactionIsBoundedInRowsAndBytes(t *testing.T) {
	r := newRig(t, Config{BatchRows: 3}, "t")
	r.deliver(1, 0, event("a", 1), event("a", 2), event("a", 3), event("a", 4))
	if len(r.works) != 2 || len(r.works[0].Items) != 3 {
		t.Errorf("works are %v", r.works)
	}
	r = newRig(t, Config{BatchBytes: 25}, "t") // a record has 10
	r.deliver(1, 0, event("a", 1), event("a", 2), event("a", 3))
	if len(r.works) != 2 || len(r.works[0].Items) != 2 {
		t.Errorf("works are %v", r.works)
	}
	r = newRig(t, Config{BatchBytes: 5}, "t")
	r.deliver(1, 0, event("a", 1), event("a", 2))
	if len(r.works) != 2 {
		t.Error("a record above the bound does not go alone")
	}
}

func TestASlowHandlerShrinksTheWorksThatFollow(t *testing.T) {
	r := newRig(t, Config{MaxBatchTime: 10 * time.Millisecond}, "t")
	r.spent = 4 * time.Millisecond
	r.deliver(1, 0, event("a", 1), event("a", 2), event("a", 3), event("a", 4))
	r.deliver(2, 0, event("a", 5), event("a", 6), event("a", 7), event("a", 8))
	if n := len(r.works[1].Items); n != 2 {
		t.Errorf("the work after a slow one has %d events, want the 2 that fit 10 ms", n)
	}
	r.wantAcked(1, 2)
}

func TestFloorsMoveWithTheWorkThatMakesThemTrue(t *testing.T) {
	r := newRig(t, Config{BatchRows: 2}, "t")
	r.deliver(1, 0, event("a", 1), event("a", 2), event("a", 3))
	want := []settle.Floor{{Generation: "g", Position: 2, EventID: "a2"}, {Generation: "g", Position: 3, EventID: "a3"}}
	for i, w := range r.works {
		if len(w.Floors) != 1 || w.Floors[0].To != want[i] {
			t.Errorf("work %d moves %v, want %v", i, w.Floors, want[i])
		}
	}
	r = newRig(t, Config{}, "t")
	r.step(Delivered{1, settle.Partition{Topic: "topic"}, records(1, event("a", 1))})
	if len(r.works[0].Floors) != 0 {
		t.Error("a floor is kept although the broker assigns the partition")
	}
	r.wantAcked(1)
}

func TestAFloorStaysBelowWhatIsNotDone(t *testing.T) {
	r := newRig(t, Config{}, "t")
	r.in.each = true // other items are kept when one fails
	r.handle = failing(settle.Unavailable(errBoom), "a1")
	r.deliver(1, 0, event("a", 1), event("b", 1))
	if f := r.in.floors[partName{"topic", 0}]; f.Position != 0 {
		t.Errorf("the floor is at %d although position 1 is not done", f.Position)
	}
	r.handle = failing(nil)
	r.pass(time.Second)
	r.wantAcked(1)
	r.wantEffects("b1", "a1")
	if f := r.in.floors[partName{"topic", 0}]; f.Position != 2 {
		t.Errorf("the floor is at %d after all is done", f.Position)
	}
}

func TestUnknownTypesAreIgnoredAndCounted(t *testing.T) {
	r := newRig(t, Config{}, "t")
	r.deliver(1, 0, typed("other", "a", 1), event("a", 2))
	r.wantAcked(1)
	r.wantEffects("a2")
	if s := r.m.Stats(r.now); s.Ignored != 1 || s.Applied != 1 || s.Received != 2 {
		t.Errorf("stats are %+v", s)
	}
}

func TestWhatCanNotBeUnderstoodIsADeadLetterWithItsBytes(t *testing.T) {
	r := newRigWith(t, Config{}, map[string]HandlerRule{"t": {MaxVersion: 2}})
	cut := settle.Record{Position: 4, Headers: map[string]string{settle.HeaderEventID: "a3"}, Raw: []byte(`{"ev`), DecodeErr: errors.New("cut"), Key: "a"}
	newer := event("a", 2)
	newer.Version = 3
	known := event("b", 1)
	known.Version = 2
	rs := append(records(2, newer, known), cut)
	r.step(Delivered{1, r.part(0), rs})
	r.wantAcked(1)
	r.wantEffects("b1")
	r.wantRow("raw:.0.4", 0, settle.ClassDecode, true)
	r.wantRow("a2", 0, settle.ClassVersion, true)
	if it, _, _ := r.in.row("raw:.0.4"); string(it.Record.Raw) != `{"ev` || it.Cause != "cut" {
		t.Errorf("the dead letter keeps %q because of %q", it.Record.Raw, it.Cause)
	}
	if f := r.in.floors[partName{"topic", 0}]; f.Position != 4 || f.EventID != "" {
		t.Errorf("the floor at a record that nobody can decode is %+v: a subscriber will find no id there", f)
	}
}

func TestAFailedEventIsParkedInTheTransactionOfWhatCameBefore(t *testing.T) {
	r := newRig(t, Config{}, "t")
	r.handle = failing(errBoom, "b1")
	r.deliver(1, 0, event("a", 1), event("b", 1), event("b", 2), event("c", 1))
	r.wantAcked(1)
	r.wantEffects("a1", "c1")
	r.wantRow("b1", 1, settle.ClassHandler, false)
	r.wantRow("b2", 0, settle.ClassFollower, false)
	if len(r.works) != 3 || len(r.works[1].Items) != 2 || r.works[1].Items[1].Intent != settle.IntentPark {
		t.Errorf("works are %v", r.works)
	}
	if it, _, _ := r.in.row("b1"); it.Cause != "boom" || !it.NextAt.After(r.now) {
		t.Errorf("the row says %q, next at %v", it.Cause, it.NextAt)
	}
}

func TestManyFailuresInOneBatchHandleEachEventTwiceAtMost(t *testing.T) {
	r := newRig(t, Config{Breaker: Breaker{DistinctKeys: -1}}, "t")
	var events []*settle.Event
	var bad []string
	for i := range 100 {
		e := event(string(rune('A'+i)), 1)
		events = append(events, e)
		if i%2 == 0 {
			bad = append(bad, e.ID)
		}
	}
	r.handle = failing(errBoom, bad...)
	r.deliver(1, 0, events...)
	r.wantAcked(1)
	if len(r.handled) > 2*len(events) {
		t.Errorf("%d calls for %d events", len(r.handled), len(events))
	}
}

func TestARetriedEventFreesWhatWaitsBehindItInOrder(t *testing.T) {
	r := newRig(t, Config{}, "t")
	r.handle = failing(errBoom, "b1")
	r.deliver(1, 0, event("b", 1), event("b", 2), event("b", 3))
	r.wantEffects()
	r.handle = failing(nil)
	r.deliver(2, 0, event("b", 4))
	r.wantEffects()
	r.pass(5 * time.Second)
	r.wantEffects("b1", "b2", "b3", "b4")
	if len(r.in.rows) != 0 {
		t.Errorf("rows are left: %v", r.in.rows)
	}
}

func TestWithPassLaterEventsOfAKeyGoAhead(t *testing.T) {
	r := newRig(t, Config{Pass: true}, "t")
	r.handle = failing(errBoom, "b1")
	r.deliver(1, 0, event("b", 1), event("b", 2))
	r.wantEffects("b2")
	r.handle = failing(nil)
	r.pass(5 * time.Second)
	r.wantEffects("b2", "b1")
}

func TestAttemptsEndInADeadLetterThatBlocksItsKey(t *testing.T) {
	r := newRig(t, Config{Retry: settle.Backoff{Attempts: 3}}, "t")
	r.handle = failing(errBoom, "b1")
	r.deliver(1, 0, event("b", 1), event("a", 1), event("b", 2))
	r.pass(time.Minute)
	r.wantRow("b1", 3, settle.ClassHandler, true)
	r.wantRow("b2", 0, settle.ClassFollower, false)
	r.wantEffects("a1")
	calls := 0
	for _, id := range r.handled {
		if id == "b1" {
			calls++
		}
	}
	if calls != 3 {
		t.Errorf("%d attempts were made, want 3", calls)
	}
	if s := r.m.Stats(r.now); s.Dead != 1 || s.Failed != 3 || s.Retried != 2 {
		t.Errorf("stats are %+v", s)
	}
}

func TestPermanentErrorsPanicsAndRefusedErrorsDieAtOnce(t *testing.T) {
	only := settle.Backoff{Only: func(err error) bool { return !errors.Is(err, errBoom) }}
	for _, c := range []struct {
		name  string
		err   error
		class settle.Class
		dead  bool
	}{
		{"permanent", settle.Permanent(errors.New("no such product")), settle.ClassPermanent, true},
		{"not in the whitelist", errBoom, settle.ClassHandler, true},
		{"a panic is an attempt", &PanicError{Value: "x", Stack: "trace"}, settle.ClassPanic, false},
		{"no upcaster", &VersionError{Version: 7}, settle.ClassVersion, true},
		{"anything else is an attempt", errors.New("later"), settle.ClassHandler, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, Config{Retry: only}, "t")
			r.handle = failing(c.err, "a1")
			r.deliver(1, 0, event("a", 1))
			r.wantAcked(1)
			r.wantRow("a1", 1, c.class, c.dead)
		})
	}
}

func TestARejectionIsDone(t *testing.T) {
	r := newRig(t, Config{}, "t")
	r.handle = failing(settle.Reject("sold out"), "a1")
	r.deliver(1, 0, event("a", 1), event("a", 2))
	r.wantAcked(1)
	r.wantEffects("a1", "a2")
	if s := r.m.Stats(r.now); s.Rejected != 1 || s.Applied != 1 {
		t.Errorf("stats are %+v", s)
	}
}

func TestASecondDeliveryHasNoSecondEffect(t *testing.T) {
	r := newRig(t, Config{}, "t")
	r.deliver(1, 0, event("a", 1))
	r.deliver(2, 0, event("a", 1))
	r.wantAcked(1, 2)
	r.wantEffects("a1")
	if s := r.m.Stats(r.now); s.Duplicate != 1 {
		t.Errorf("stats are %+v", s)
	}
}

func TestEventsWithOneEffectKeyHaveOneEffect(t *testing.T) {
	r := newRig(t, Config{EffectKey: func(e *settle.Event) string { return e.BizKey }}, "t")
	one, two := event("a", 1), event("b", 1)
	one.BizKey, two.BizKey = "payment-7", "payment-7"
	r.deliver(1, 0, one, two)
	r.wantEffects("a1")

	r = newRig(t, Config{EffectKey: func(*settle.Event) string { panic("bad") }}, "t")
	r.deliver(1, 0, event("a", 1))
	r.wantRow("a1", 0, settle.ClassPanic, true)
}

func TestExternalHandlersRunAlone(t *testing.T) {
	r := newRigWith(t, Config{}, map[string]HandlerRule{"t": {}, "mail": {External: true}})
	r.handle = failing(errBoom, "x1")
	r.deliver(1, 0, event("a", 1), typed("mail", "b", 1), event("a", 2))
	r.deliver(2, 1, typed("mail", "x", 1), typed("mail", "y", 1))
	r.wantAcked(1, 2)
	for i, w := range r.works {
		mails := 0
		for _, it := range w.Items {
			if it.Record.Event.Type == "mail" && it.Intent == settle.IntentHandle {
				mails++
			}
		}
		if mails > 0 && (len(w.Items) != 1 || !r.alone[i]) || mails == 0 && r.alone[i] {
			t.Errorf("work %d has %d items, %d with outside effects, alone %v", i, len(w.Items), mails, r.alone[i])
		}
	}
	if slices.Contains(r.in.applied(), "x1") || !slices.Contains(r.in.applied(), "y1") {
		t.Errorf("effects are %v", r.in.applied())
	}
}

func TestABatchHandlerIsBisectedDownToTheEventThatFails(t *testing.T) {
	r := newRigWith(t, Config{}, map[string]HandlerRule{"t": {Batch: true}, "u": {}})
	r.handle = failing(errBoom, "e1")
	r.deliver(1, 0, event("a", 1), event("b", 1), event("c", 1), event("d", 1), event("e", 1), event("f", 1), typed("u", "g", 1))
	r.wantAcked(1)
	r.wantEffects("a1", "b1", "c1", "d1", "f1", "g1")
	r.wantRow("e1", 1, settle.ClassHandler, false)
	for i, w := range r.works {
		for _, it := range w.Items {
			if it.Intent == settle.IntentHandle && (it.Record.Event.Type == "t") != (r.batches[i] == "t") {
				t.Errorf("work %d for batch handler %q has an event of type %s", i, r.batches[i], it.Record.Event.Type)
			}
		}
	}
}

func TestWorksInFlightShareNoKeyAndNoPartition(t *testing.T) {
	r := newRig(t, Config{Concurrency: 3, BatchRows: 1}, "t")
	r.manual = true
	r.deliver(1, 0, event("a", 1), event("b", 1))
	r.deliver(2, 1, event("a", 2))
	r.deliver(3, 2, event("c", 1))
	if len(r.pending) != 2 {
		t.Fatalf("%d works are in flight, want a1 and c1", len(r.pending))
	}
	if id := r.pending[1].Work.Items[0].Record.Event.ID; id != "c1" {
		t.Errorf("%s is in flight beside a1", id)
	}
	r.finish()
	for len(r.pending) > 0 {
		r.finish()
	}
	r.wantAcked(1, 2, 3)
}

func TestOldLogRowsAreForgottenAtABoundedPace(t *testing.T) {
	r := newRig(t, Config{DedupWindow: time.Hour}, "t")
	r.pass(3 * time.Minute)
	if n := len(r.in.forgot); n < 3 || n > 5 {
		t.Errorf("%d times in 3 minutes", n)
	}
	if want := epoch.Add(-time.Hour); !r.in.forgot[0].Equal(want) {
		t.Errorf("the floor is %v, want %v", r.in.forgot[0], want)
	}
	r = newRig(t, Config{}, "t")
	r.pass(3 * time.Minute)
	if len(r.in.forgot) != 0 {
		t.Error("rows are forgotten without a window")
	}
}

func TestTheRateIsBounded(t *testing.T) {
	r := newRig(t, Config{RateLimit: 100, RateBurst: 10}, "t")
	var events []*settle.Event
	for i := range 200 {
		events = append(events, event("a", i))
	}
	r.deliver(1, 0, events...)
	if n := len(r.in.applied()); n != 10 {
		t.Errorf("%d at once, want the burst of 10", n)
	}
	r.pass(time.Second)
	if n := len(r.in.applied()); n < 100 || n > 111 {
		t.Errorf("%d after a second, want about 110", n)
	}
	if len(r.works) > 70 {
		t.Errorf("%d transactions for 100 events", len(r.works))
	}
	r.pass(time.Second)
	r.wantAcked(1)
}
