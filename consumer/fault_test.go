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

func TestAFaultOfTheStoreCostsNoAttempt(t *testing.T) {
	r := newRig(t, Config{}, "t")
	r.in.fail = func(settle.Work) error { return errors.New("disk full") }
	r.deliver(1, 0, event("a", 1), event("a", 2))
	r.pass(time.Minute)
	if len(r.answers) != 0 {
		t.Fatal("a delivery is answered while the store is down")
	}
	if n := len(r.works); n > 30 {
		t.Errorf("%d tries in a minute: the wait does not grow", n)
	}
	r.in.fail = nil
	r.pass(time.Minute)
	r.wantAcked(1)
	r.wantEffects("a1", "a2")
	if s := r.m.Stats(r.now); s.Failed != 0 || s.Dead != 0 || s.StoreDown {
		t.Errorf("stats are %+v", s)
	}
	r.wantNote("store", "down")
	r.wantNote("store", "up")
	if len(r.notes) != 2 {
		t.Errorf("notes are %v, want one per change of state", r.notes)
	}
}

func TestAnEventThatCanNotBeCommittedHoldsUpOnlyItsKey(t *testing.T) {
	r := newRig(t, Config{Retry: settle.Backoff{Attempts: 2}}, "t")
	r.in.fail = func(w settle.Work) error {
		for _, it := range w.Items {
			if it.Record.Event.ID == "c1" && it.Intent == settle.IntentHandle {
				return errors.New("deferred constraint")
			}
		}
		return nil
	}
	r.deliver(1, 0, event("a", 1), event("b", 1), event("c", 1), event("c", 2), event("d", 1))
	r.pass(5 * time.Minute)
	r.wantAcked(1)
	for _, id := range []string{"a1", "b1", "d1"} {
		if !slices.Contains(r.in.applied(), id) {
			t.Errorf("%s has no effect", id)
		}
	}
	r.wantRow("c1", 2, settle.ClassHandler, true)
}

func TestAnUnavailableDependencyPausesItsTypeAndCostsNoAttempt(t *testing.T) {
	r := newRig(t, Config{}, "t", "u")
	down := true
	r.handle = func(e *settle.Event) error {
		if down && e.Type == "t" {
			return settle.Unavailable(errBoom)
		}
		return nil
	}
	r.deliver(1, 0, typed("u", "a", 1), event("a", 2), typed("u", "a", 3))
	r.deliver(2, 1, typed("u", "b", 1))
	r.pass(time.Minute)
	r.wantAcked(2)
	if got := r.in.applied(); len(got) != 2 {
		t.Errorf("effects are %v: what is behind the paused type in its partition must wait, the rest must not", got)
	}
	if n := len(r.handled); n > 25 {
		t.Errorf("%d calls in a minute", n)
	}
	r.wantNote("breaker", "open")
	if s := r.m.Stats(r.now); !slices.Equal(s.Open, []string{"t"}) {
		t.Errorf("open breakers are %v", s.Open)
	}
	down = false
	r.pass(time.Minute)
	r.wantAcked(1)
	if s := r.m.Stats(r.now); s.Failed != 0 || s.Parked != 0 {
		t.Errorf("stats are %+v", s)
	}
	r.wantNote("breaker", "closed")
}

func TestAnOpenBreakerIsProbedWithOneEvent(t *testing.T) {
	r := newRig(t, Config{Breaker: Breaker{Failures: 1, Wait: time.Second}}, "t")
	r.handle = failing(settle.Unavailable(errBoom), "a1", "b1", "c1")
	r.deliver(1, 0, event("a", 1), event("b", 1), event("c", 1))
	r.pass(1100 * time.Millisecond)
	if w := r.works[len(r.works)-1]; len(w.Items) != 1 {
		t.Errorf("the probe has %d events", len(w.Items))
	}
	r.handle = failing(nil)
	r.pass(5 * time.Second)
	r.wantAcked(1)
}

func TestTimeoutsAreAttemptsAndOpenTheBreaker(t *testing.T) {
	r := newRig(t, Config{Breaker: Breaker{Failures: 3, Wait: time.Hour, MaxWait: time.Hour}}, "t")
	var events []*settle.Event
	for i := range 10 {
		events = append(events, event(string(rune('a'+i)), 1))
	}
	r.handle = func(*settle.Event) error { return fmt.Errorf("late: %w", ErrHandlerTimeout) }
	r.deliver(1, 0, events...)
	if s := r.m.Stats(r.now); s.Failed != 3 || len(s.Open) != 1 {
		t.Errorf("%d attempts were made, breakers %v are open", s.Failed, s.Open)
	}
}

func TestWhenEverythingFailsTheStreamDoesNotBecomeDeadLetters(t *testing.T) {
	r := newRig(t, Config{Breaker: Breaker{DistinctKeys: 10}}, "t")
	broken := true
	r.handle = func(*settle.Event) error {
		if broken {
			return settle.Permanent(errBoom)
		}
		return nil
	}
	var events []*settle.Event
	for i := range 200 {
		events = append(events, event(fmt.Sprint("k", i, "-"), 1))
	}
	r.deliver(1, 0, events...)
	r.pass(10 * time.Minute)
	if s := r.m.Stats(r.now); s.Dead > 50 {
		t.Errorf("%d of 200 events are dead after 10 minutes of a broken handler", s.Dead)
	}
	r.wantNote("breaker", "open")
	broken = false
	r.pass(time.Minute)
	r.wantAcked(1)
}

func TestAPausedGroupHoldsAndAPausedKeyIsParked(t *testing.T) {
	r := newRig(t, Config{}, "t")
	r.in.pause(settle.Control{Kind: "group", Name: "g"})
	r.pass(2 * time.Second)
	r.deliver(1, 0, event("a", 1))
	r.pass(time.Minute)
	if len(r.answers) != 0 || len(r.works) != 0 {
		t.Fatal("a paused group works")
	}
	r.in.pause(settle.Control{Kind: "key", Name: "g/a"}, settle.Control{Kind: "key", Name: "other/b"}, settle.Control{Kind: "group", Name: "other"})
	r.pass(2 * time.Second)
	r.wantAcked(1)
	r.deliver(2, 0, event("a", 2), event("b", 1))
	r.pass(time.Minute)
	r.wantEffects("b1")
	r.wantRow("a1", 0, settle.ClassPaused, false)
	if len(r.works) > 30 {
		t.Errorf("%d transactions for a paused key in a minute", len(r.works))
	}
	r.in.pause()
	r.pass(10 * time.Second)
	r.wantEffects("b1", "a1", "a2")
	r.wantNote("group", "paused")
	r.wantNote("group", "resumed")
}

func TestEventsInHandWhenAProcessDiedAreTriedAloneWithTheAttemptRecordedFirst(t *testing.T) {
	r := newRig(t, Config{BatchRows: 2, SuspectAfter: 2}, "t")
	p := r.part(0)
	r.step(Claimed{settle.Claim{Partition: p, Deaths: 2}})
	recorded := map[string]int{}
	r.handle = func(e *settle.Event) error {
		it, _, ok := rowUnlocked(r.in, e.ID)
		if ok {
			recorded[e.ID] = it.Attempt
		}
		return nil
	}
	r.step(Delivered{1, p, records(1, event("a", 1), event("b", 1), event("c", 1))})
	r.wantAcked(1)
	r.pass(time.Second)
	if recorded["a1"] != 1 || recorded["b1"] != 1 {
		t.Errorf("recorded before the handler ran: %v", recorded)
	}
	if _, alone := recorded["c1"]; alone {
		t.Error("an event beyond the first window is suspected too")
	}
	for _, w := range r.works {
		for _, it := range w.Items {
			if it.Attempt == 1 && it.RetryID != 0 && it.Intent == settle.IntentHandle && len(w.Items) != 1 {
				t.Errorf("a suspect is tried with %d others", len(w.Items)-1)
			}
		}
	}
	r.step(Claimed{settle.Claim{Partition: p, Deaths: 2}})
	r.deliver(2, 0, event("d", 1))
	if _, _, parked := r.in.row("d1"); parked {
		t.Error("a renewed claim starts the suspicion again")
	}
}

func rowUnlocked(f *fakeInbox, id string) (settle.Item, bool, bool) {
	for _, r := range f.rows {
		if logID(&r.item.Record) == id {
			return r.item, r.dead, true
		}
	}
	return settle.Item{}, false, false
}

func TestAnEventThatKillsTheProcessBecomesADeadLetter(t *testing.T) {
	cfg := Config{Retry: settle.Backoff{Attempts: 3}}
	r := newRig(t, cfg, "t")
	r.handle = failing(errBoom, "a1")
	r.deliver(1, 0, event("a", 1), event("b", 1))
	deaths := 0
	for range 10 {
		r.manual = true
		r.pass(20 * time.Second)
		for len(r.pending) > 0 {
			c := r.pending[0]
			if c.Work.Items[0].Record.Event.ID == "a1" && c.Work.Items[0].Intent == settle.IntentHandle {
				// Inside this handler the process dies; another one starts.
				deaths++
				r.pending = nil
				r.m = NewMachine("g", map[string]HandlerRule{"t": {}}, cfg)
				r.step(Tick{})
				break
			}
			r.finish()
		}
	}
	if deaths != 2 {
		t.Errorf("it killed %d processes; of 3 attempts the first one failed", deaths)
	}
	r.wantRow("a1", 3, settle.ClassCrashLoop, true)
}

func TestAReplayedEventIsMarkedBeforeItIsTriedWithOthers(t *testing.T) {
	r := newRig(t, Config{}, "t")
	for i := range 3 {
		e := event(string(rune('a'+i)), 1)
		r.in.log[e.ID] = settle.VerdictParked
		r.in.insert(settle.Item{Record: records(1, e)[0], NextAt: r.now}, false)
	}
	r.manual = true
	r.pass(2 * time.Second)
	r.finish()
	r.wantRow("a1", 0, settle.ClassSuspect, false)
	if w := r.pending[0].Work; len(w.Items) != 3 {
		t.Errorf("%d are tried in one transaction, want 3", len(w.Items))
	}
	r.finish()
	r.wantEffects("a1", "b1", "c1")
}

func TestAFencedPartitionIsGivenBackUnacknowledged(t *testing.T) {
	r := newRig(t, Config{}, "t")
	p := r.part(0)
	r.in.epochs[partName{"topic", 0}] = 2 // another owner
	r.step(Delivered{1, p, records(1, event("a", 1))})
	if err := r.answers[1]; !errors.Is(err, settle.ErrFenced) {
		t.Errorf("the delivery is answered %v", err)
	}
	r.wantEffects()

	r.manual = true
	r.deliver(2, 1, event("b", 1))
	r.deliver(3, 2, event("c", 1))
	r.step(Lost{"topic", 2})
	if err := r.answers[3]; !errors.Is(err, settle.ErrFenced) {
		t.Errorf("a lost partition's delivery is answered %v", err)
	}
	r.step(Lost{"topic", 1})
	if _, early := r.answers[2]; early {
		t.Error("a delivery is answered while it is being applied")
	}
	r.finish()
	r.wantAcked(2)
}

func TestAnotherLifeOfTheStreamEndsTheGroup(t *testing.T) {
	r := newRig(t, Config{}, "t")
	r.in.fail = func(settle.Work) error { return fmt.Errorf("move floor: %w", settle.ErrNewGeneration) }
	r.deliver(1, 0, event("a", 1))
	if !errors.Is(r.halted, settle.ErrNewGeneration) || !r.stopped || r.answers[1] == nil {
		t.Errorf("halted %v, stopped %v, answered %v", r.halted, r.stopped, r.answers[1])
	}
}

func TestAWithdrawnDeliveryIsAnsweredWhenNothingOfItIsInFlight(t *testing.T) {
	r := newRig(t, Config{BatchRows: 1}, "t")
	r.manual = true
	r.deliver(1, 0, event("a", 1), event("a", 2))
	r.deliver(2, 1, event("b", 1))
	r.step(Withdrawn{2})
	if !errors.Is(r.answers[2], context.Canceled) {
		t.Errorf("answered %v", r.answers[2])
	}
	r.step(Withdrawn{1})
	if _, early := r.answers[1]; early {
		t.Error("answered while it is being applied")
	}
	r.finish()
	if !errors.Is(r.answers[1], context.Canceled) {
		t.Errorf("answered %v although a2 is not done", r.answers[1])
	}
	if len(r.pending) != 0 {
		t.Error("a withdrawn delivery is applied")
	}
}

func TestStoppingFinishesWhatIsInFlightAndGivesTheRestBack(t *testing.T) {
	r := newRig(t, Config{BatchRows: 1}, "t")
	r.manual = true
	r.deliver(1, 0, event("a", 1))
	r.deliver(2, 1, event("b", 1))
	r.step(Stopping{})
	if !errors.Is(r.answers[2], ErrStopping) || r.stopped {
		t.Errorf("answered %v, stopped %v", r.answers[2], r.stopped)
	}
	r.finish()
	r.wantAcked(1)
	if !r.stopped || len(r.pending) != 0 {
		t.Error("the machine does not come to an end")
	}
	r.deliver(3, 1, event("c", 1))
	if !errors.Is(r.answers[3], ErrStopping) {
		t.Errorf("a delivery after the end is answered %v", r.answers[3])
	}
}

func TestAnAttemptThatWasRecordedButNotMadeIsTakenBackAtTheEnd(t *testing.T) {
	r := newRig(t, Config{}, "t")
	r.handle = failing(errBoom, "a1")
	r.deliver(1, 0, event("a", 1))
	r.manual = true
	r.pass(3 * time.Second)
	if r.pending[0].Work.Items[0].Attempt != 2 {
		t.Fatal("the second attempt is not recorded first")
	}
	r.step(Stopping{})
	r.finish() // the record of attempt 2
	r.finish() // last words
	r.wantRow("a1", 1, settle.ClassHandler, false)
	if !r.stopped {
		t.Error("the machine does not come to an end")
	}
}

func TestARetryThatMeetsAnUnavailableDependencyCostsNoAttempt(t *testing.T) {
	r := newRig(t, Config{Retry: settle.Backoff{Attempts: 3}}, "t")
	r.handle = failing(errBoom, "a1")
	r.deliver(1, 0, event("a", 1), event("a", 2))
	r.handle = failing(settle.Unavailable(errBoom), "a1")
	r.pass(5 * time.Minute)
	r.wantRow("a1", 1, settle.ClassHandler, false)
	r.handle = failing(nil)
	r.pass(time.Minute)
	r.wantEffects("a1", "a2")
}

func TestDueEventsHeldByAnOpenBreakerAreNotLoadedAgainAndAgain(t *testing.T) {
	r := newRig(t, Config{BatchRows: 2, Breaker: Breaker{Failures: 1, Wait: time.Hour, MaxWait: time.Hour}}, "t")
	r.handle = failing(settle.Unavailable(errBoom), "z1")
	r.deliver(1, 0, event("z", 1))
	for i := range 5 { // more than one load takes
		e := event(string(rune('a'+i)), 1)
		r.in.log[e.ID] = settle.VerdictParked
		r.in.insert(settle.Item{Record: records(1, e)[0], NextAt: r.now}, false)
	}
	before := r.in.dues
	r.in.hurry = true // there is more: it says that the next is due now
	r.pass(10 * time.Second)
	if n := r.in.dues - before; n > 15 {
		t.Errorf("loaded %d times in 10 seconds", n)
	}
}
