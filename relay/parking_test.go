package relay

import (
	"slices"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// until lets things happen one by one until cond holds.
func (w *world) until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for i := 0; !cond(); i++ {
		switch {
		case i > 100_000:
			t.Fatalf("it never comes to it: %s", what)
		case len(w.calls) > 0:
			w.call()
		case len(w.pubs) > 0:
			w.answer(0)
		default:
			w.now = laterOf(w.now, w.wake)
			w.step(Tick{})
		}
	}
}

func (w *world) asks(ok func(Command) bool) bool {
	for _, c := range w.calls {
		if ok(c) {
			return true
		}
	}
	return false
}

func readsParked(c Command) bool {
	side, ok := c.(ReadSide)
	return ok && side.Query.Side == SideParked
}

func commits(c Command) bool { _, ok := c.(Commit); return ok }

func TestAKeyIsNotFreeWhileARowJoinsItThatWasNotThereWhenItsRowsWereRead(t *testing.T) {
	w := newWorld(t, Config{})
	w.broker.refuse = refuseEvents(settle.ScopeRecord, "e1")
	w.store.add("k", "a")
	w.run(time.Second)
	w.broker.refuse = nil
	w.until(t, "all rows of the key are sent", func() bool { return w.store.rows[1].sent && w.asks(readsParked) })
	// A poll answers first, with another row of the key.
	w.store.add("k", "a")
	w.step(Woken{})
	slices.SortStableFunc(w.calls, func(a, b Command) int {
		if readsParked(b) && !readsParked(a) {
			return -1
		}
		return 0
	})
	for !readsParked(w.calls[0]) {
		w.call()
	}
	w.call()
	if w.m.parked == 0 {
		t.Error("free while a row of it is being parked")
	}
	w.run(time.Second)
	w.store.add("k", "a")
	w.run(5 * time.Second)
	w.wantSent(t, "e1", "e2", "e3")
	if len(w.store.parked) > 0 {
		t.Errorf("still parked: %v", w.store.parked)
	}
}

func TestAParkedKeyIsNotFreedWhileARowThatJoinsItIsBeingCommitted(t *testing.T) {
	w := newWorld(t, Config{Retry: settle.Backoff{Jitter: -1}})
	w.broker.refuse = refuseEvents(settle.ScopeRecord, "e1")
	w.store.add("k", "a")
	w.run(1900 * time.Millisecond)
	w.broker.refuse = nil
	w.store.add("k", "a")
	w.step(Woken{})
	w.until(t, "the second row is being committed", func() bool { return w.asks(commits) })
	if len(w.store.parked[[2]string{"a", "k"}]) != 1 {
		t.Fatal("committed already")
	}
	w.now = w.now.Add(time.Second)
	w.step(Tick{})
	// The head may be read meanwhile: what joins comes behind it.
	if !w.asks(readsParked) {
		t.Error("the head waits for those behind it")
	}
	w.run(time.Second)
	w.wantSent(t, "e1", "e2")
}

func TestWhatWasReadOfAParkedKeyIsDroppedWhenOneOfItsRowsIsRefused(t *testing.T) {
	w := newWorld(t, Config{BatchBytes: 10_000})
	w.broker.refuse = refuseEvents(settle.ScopeRecord, "e1")
	for range 12 {
		w.store.add("k", "a").Event.Payload = make([]byte, 3000)
	}
	w.run(time.Second)
	w.broker.refuse = refuseEvents(settle.ScopeRecord, "e4")
	w.run(3 * time.Second)
	w.wantSent(t, "e1", "e2", "e3")
	w.broker.refuse = nil
	w.run(10 * time.Second)
	if n := len(w.broker.firsts()); n != 12 {
		t.Errorf("%d of 12 sent", n)
	}
	wantKeyOrder(t, w)
	w.wantSound(t)
}

func TestAParkedRowWhoseKeyItsOwnerHasChangedIsSent(t *testing.T) {
	w := newWorld(t, Config{Retry: settle.Backoff{Jitter: -1}})
	w.broker.refuse = refuseEvents(settle.ScopeRecord, "e1", "e3")
	w.store.add("", "a")
	w.store.add("", "a")
	w.store.add("k", "a")
	w.store.add("k", "a")
	w.run(time.Second)
	// The event is another value, because the one that was read stays as it was.
	for id, key := range map[int64]string{1: "mended", 3: "other"} {
		e := *w.store.rows[id].row.Event
		e.AggregateID = key
		w.store.rows[id].row.Event = &e
	}
	w.run(3 * time.Second) // it is refused once more under its new key
	w.broker.refuse = nil
	w.run(time.Minute)
	w.wantSent(t, "e2", "e1", "e3", "e4")
	if len(w.store.parked) > 0 || w.m.parked > 0 {
		t.Errorf("still parked: %v", w.store.parked)
	}
}

func TestARowThatShowsUpLateIsSentBeforeWhatWaitsBehindItsID(t *testing.T) {
	w := newWorld(t, Config{})
	w.broker.refuse = func(settle.Message) error { return errNoAnswer }
	w.store.add("k", "a")
	late := w.store.allocate("x", "a")
	w.store.add("k", "a")
	w.run(time.Second)
	w.store.add("k", "a")
	w.run(30 * time.Millisecond)
	w.store.rows[late].visible = true
	w.run(30 * time.Millisecond)
	w.broker.refuse = nil
	w.run(10 * time.Second)
	w.wantSent(t, "e1", "e2", "e3", "e4")
}

func TestAReaderThatComesLevelKnowsTheHolesBehindItsLastRow(t *testing.T) {
	for n := range 12 {
		w := newWorld(t, Config{BatchRows: 2, HoleAge: time.Hour})
		w.store.add("k", "up")
		w.run(time.Second)
		w.broker.refuse = refuseTopic(settle.ScopeTopic, "down")
		for range 5 + n {
			w.store.add("k", "down")
		}
		hole := w.store.allocate("x", "down")
		w.store.add("k", "up")
		w.run(time.Second)
		w.broker.refuse = nil
		w.now = w.now.Add(2 * time.Second)
		w.step(Tick{})
		for range 50 { // nothing is answered
			w.callAll()
			w.now = w.now.Add(time.Millisecond)
			w.step(Tick{})
		}
		w.store.rows[hole].visible = true
		for range 50 {
			w.callAll()
			w.now = w.now.Add(time.Millisecond)
			w.step(Tick{})
		}
		w.run(time.Minute)
		if got := len(w.broker.firsts()); got != n+8 {
			t.Errorf("%d of %d sent", got, n+8)
		}
		w.wantSound(t)
	}
}

func TestAKeyWithSteadyTrafficIsFreedInTheEnd(t *testing.T) {
	w := newWorld(t, Config{BatchRows: 4, Retry: settle.Backoff{Base: time.Millisecond, Max: 10 * time.Millisecond, Attempts: 1000}})
	w.broker.refuse = refuseEvents(settle.ScopeRecord, "e1")
	w.store.add("k", "a")
	w.run(time.Second)
	w.broker.refuse = nil
	for range 800 { // a new row with every step
		w.store.add("k", "a")
		w.now = w.now.Add(time.Millisecond)
		switch {
		case len(w.calls) > 0:
			w.call()
		case len(w.pubs) > 0:
			w.answer(0)
		default:
			w.step(Woken{})
		}
		if w.store.rows[1].sent && w.m.parked == 0 {
			w.run(5 * time.Second)
			wantKeyOrder(t, w)
			return
		}
	}
	t.Error("parked for ever")
}

func TestReadingStopsAtTheBoundOfParkedKeys(t *testing.T) {
	w := newWorld(t, Config{BatchRows: 4, MaxParkedKeys: 10, Retry: settle.Backoff{Base: time.Minute}})
	w.broker.refuse = func(settle.Message) error {
		return &settle.PublishError{Scope: settle.ScopeRecord, Err: errNoAnswer}
	}
	for i := range 100 {
		w.store.add(string(rune('A'+i)), "a")
	}
	w.run(10 * time.Second)
	if n := w.m.parked; n < 10 || n > 30 {
		t.Errorf("%d keys parked", n)
	}
	w.broker.refuse = nil
	w.run(10 * time.Minute)
	if n := len(w.broker.firsts()); n != 100 {
		t.Errorf("%d of 100 sent", n)
	}
}
