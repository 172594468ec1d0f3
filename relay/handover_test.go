package relay

import (
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// A row that moves from one place to another must leave the first.

func TestALateRowThatIsNotDueLeavesTheLateOnes(t *testing.T) {
	w := newWorld(t, Config{})
	w.store.allocate("x", "a")
	w.store.add("k", "a")
	w.run(10 * time.Second)
	w.store.rows[1].visible = true
	w.store.rows[1].row.Event.NotBefore = w.now.Add(2 * time.Minute)
	w.run(time.Minute)
	if len(w.store.extra) != 0 || len(w.store.delayed) != 1 {
		t.Fatalf("late rows %v, delayed %v", w.store.extra, w.store.delayed)
	}
	w.run(2 * time.Minute)
	w.wantSent(t, "e2", "e1")
	if n := len(w.broker.log); n != 2 {
		t.Errorf("%d copies of 2 events", n)
	}
}

func TestAHoleThatAReaderOfItsOwnHasFilledIsNotReadAgainAfterItRejoins(t *testing.T) {
	w := newWorld(t, Config{BatchRows: 2})
	w.store.owners = func(Evidence) Evidence { return Evidence{Known: true, Token: "t1"} }
	w.broker.refuse = refuseTopic(settle.ScopeTopic, "down")
	for range 10 {
		w.store.add("k", "down")
	}
	hole := w.store.allocate("x", "down")
	w.store.add("k", "up")
	w.run(time.Second)
	if w.m.Stats(w.now).Behind != 1 {
		t.Fatal("the topic does not read for itself")
	}
	w.broker.refuse = nil
	readsTheHole := func() bool {
		if len(w.calls) == 0 {
			return false
		}
		p, ok := w.calls[0].(Poll)
		return ok && p.Destination == "down" && p.Query.After < hole && hole <= p.Query.After+2
	}
	for i := 0; !readsTheHole(); i++ {
		switch {
		case i > 100_000:
			t.Fatal("its reader never comes to the hole")
		case len(w.calls) > 0:
			w.call()
		case len(w.pubs) > 0:
			w.answer(0)
		default:
			w.now = laterOf(w.now, w.wake)
			w.step(Tick{})
		}
	}
	w.store.rows[hole].visible = true
	w.run(time.Minute)
	if n := len(w.broker.log); n != 12 {
		t.Errorf("%d copies of 12 events", n)
	}
	w.wantSound(t)
	wantKeyOrder(t, w)
}

func TestALateRowWaitsForWhatIsUnreadBeforeItAndThenGoes(t *testing.T) {
	w := newWorld(t, Config{})
	w.now = w.now.Add(w.m.cfg.LeaseTTL)
	w.store.add("k", "a")
	w.store.extra[w.store.add("k", "a").ID] = ""
	w.store.check = Checkpoint{Number: 1, Readers: []Reader{{Cursor: 2, CursorEvent: "e2", Open: []int64{1}}}}
	w.start()
	w.run(time.Minute)
	w.wantSent(t, "e1", "e2")
	if len(w.store.extra) != 0 {
		t.Errorf("still listed as late: %v", w.store.extra)
	}
}

func TestRowsThatMightVanishAreReadAgainWhenTheStoreHasFailed(t *testing.T) {
	w := newWorld(t, Config{})
	w.run(time.Second)
	w.store.notDurable = true
	w.store.add("k", "a")
	w.step(Woken{})
	for w.m.Stats(w.now).Pending == 0 {
		w.call()
	}
	// The database dies and is back at once; only a renewal notices.
	w.store.rows[1].visible = false
	w.m.ask(askLead, Lead{})
	w.step(Failed{Command: Lead{}, Err: settle.ErrClosed})
	w.run(10 * time.Second)
	if n := len(w.broker.log); n != 0 {
		t.Errorf("an event that is gone was sent")
	}
}

func TestLateRowsAreSentAlthoughTheAnswerOfTheSweepWasLost(t *testing.T) {
	w := newWorld(t, Config{SweepEvery: time.Hour})
	w.run(time.Second)
	w.store.extra[w.store.add("k", "a").ID] = ""
	w.run(time.Second)
	w.m.ask(askSweep, Sweep{})
	w.step(Failed{Command: Sweep{}, Err: settle.ErrClosed})
	w.run(10 * time.Second)
	if len(w.store.extra) != 0 {
		t.Errorf("still listed as late: %v", w.store.extra)
	}
}

func TestAReaderThatGaveRowsUpDoesNotTakeLaterOnesItHadAskedFor(t *testing.T) {
	w := newWorld(t, Config{BatchRows: 2})
	w.broker.refuse = refuseTopic(settle.ScopeTopic, "slow")
	for range 24 {
		w.store.add("k", "slow")
	}
	w.run(time.Second)
	w.broker.refuse = nil
	var slow *destination
	asking := func() bool {
		if len(w.calls) == 0 {
			return false
		}
		p, ok := w.calls[0].(Poll)
		slow = w.m.destination("slow")
		return ok && p.Destination == "slow" && slow.waiting() > 0
	}
	for i := 0; !asking(); i++ {
		switch {
		case i > 100_000:
			t.Fatal("its reader never asks for more than it has")
		case len(w.calls) > 0:
			w.call()
		case len(w.pubs) > 0:
			w.answer(0)
		default:
			w.now = laterOf(w.now, w.wake)
			w.step(Tick{})
		}
	}
	slow.paused = true
	w.step(Tick{}) // it gives up what it has
	slow.paused = false
	w.call()
	w.answer(0)
	for len(w.pubs) > 0 {
		w.answer(0)
	}
	w.run(time.Minute)
	if n := len(w.broker.firsts()); n != 24 {
		t.Errorf("%d of 24 sent", n)
	}
	wantKeyOrder(t, w)
}

func TestLateRowsAreSentThoughASweepListedThemAfterItsCallerHadGivenUp(t *testing.T) {
	w := newWorld(t, Config{SweepEvery: time.Minute})
	w.run(time.Second)
	id := w.store.add("k", "a").ID
	w.run(time.Second)
	w.store.extra[id] = ""
	w.run(2 * time.Minute)
	if len(w.store.extra) != 0 {
		t.Errorf("still listed as late: %v", w.store.extra)
	}
}
