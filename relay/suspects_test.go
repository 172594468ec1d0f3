package relay

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// crashWhen lets a process die whenever an event is handed to the broker, and
// returns how often one did.
func (w *world) crashWhen(event string, times int) (deaths int) {
	return w.crashAt(times, func(p *Publish) bool {
		return slices.ContainsFunc(p.Messages, func(m settle.Message) bool { return m.Event.ID == event })
	})
}

// crashAt lets a process die when it hands over what deadly says. It ends after
// so many deaths, or when all is settled.
func (w *world) crashAt(times int, deadly func(*Publish) bool) (deaths int) {
	for end := w.now.Add(10 * time.Minute); w.now.Before(end) && deaths < times && !w.settledAll(); {
		switch {
		case slices.ContainsFunc(w.pubs, func(p Publish) bool { return deadly(&p) }):
			deaths++
			w.kill()
		case len(w.calls) > 0:
			w.call()
		case len(w.pubs) > 0:
			w.answer(0)
		default:
			w.now = w.now.Add(10 * time.Millisecond)
			w.step(Tick{})
		}
	}
	return deaths
}

// settledAll reports whether each row is sent or dead.
func (w *world) settledAll() bool {
	for id, r := range w.store.rows {
		if _, dead := w.store.dead[id]; !dead && !r.sent {
			return false
		}
	}
	return true
}

// trials counts what was written down before it was tried.
func (w *world) trials() (n int) {
	for _, f := range w.store.commits {
		if len(f.Attempts) > 0 {
			n++
		}
	}
	return n
}

func TestAnEventThatKillsTheProcessBecomesADeadLetterInsteadOfKillingItForEver(t *testing.T) {
	w := newWorld(t, Config{})
	for i := range 6 {
		w.store.add(fmt.Sprint("k", i), "a")
	}
	w.store.add("k2", "a")
	w.crashWhen("e3", 1000)
	w.run(10 * time.Second)
	d, dead := w.store.dead[3]
	if !dead || d.Class != settle.ClassCrashLoop || d.Attempts != 3 {
		t.Fatalf("dead letter %+v (%v)", d, dead)
	}
	for id, r := range w.store.rows {
		if id != 3 && id != 7 && !r.sent {
			t.Errorf("e%d was not sent", id)
		}
	}
	if w.store.rows[7].sent {
		t.Error("the key goes on behind the dead letter")
	}
	w.wantSound(t)
}

func TestAfterUncleanEndsInnocentEventsAreTriedTogetherAndSent(t *testing.T) {
	w := newWorld(t, Config{})
	for i := range 6 {
		w.store.add(fmt.Sprint("k", i%2), "a")
	}
	w.crashWhen("e3", 2)
	w.run(10 * time.Second)
	if n := w.trials(); n != 1 || len(w.broker.firsts()) != 6 {
		t.Errorf("%d trials, sent %v", n, w.sent())
	}
	for _, f := range w.store.commits {
		for _, a := range f.Attempts {
			if a.Attempts != 0 || a.Together != 6 || !a.Suspect {
				t.Errorf("attempt %+v", a)
			}
		}
	}
	if len(w.store.parked) > 0 {
		t.Errorf("still parked: %v", w.store.parked)
	}
	wantKeyOrder(t, w)
	w.wantSound(t)
}

// Leaders are killed from outside, at worst each time a trial is under way.
func TestAThousandEventsInDoubtCostFewCommitsHoweverManyLeadersDied(t *testing.T) {
	for _, keys := range []int{1, 40, 1000} {
		for _, inTrial := range []int{0, 1, 4, 8} {
			w := newWorld(t, Config{})
			for i := range 1000 {
				w.store.add(fmt.Sprint("k", i%keys), "a")
			}
			w.crashAt(2, func(*Publish) bool { return true })
			w.crashAt(inTrial, func(*Publish) bool { return w.m.sus.trial.sent })
			before := len(w.store.commits)
			w.run(time.Minute)
			if n, most := len(w.store.commits)-before, 10+3*inTrial; n > most {
				t.Errorf("%d keys, %d more deaths: %d commits, at most %d wanted", keys, inTrial, n, most)
			}
			if n := len(w.broker.firsts()); n != 1000 || len(w.store.dead) > 0 {
				t.Errorf("%d keys, %d more deaths: %d sent, dead %v", keys, inTrial, n, w.store.dead)
			}
			wantKeyOrder(t, w)
			w.wantSound(t)
		}
	}
}

func TestAnEventThatKillsIsFoundAmongAThousandByHalvesAndNoOtherDiesOfIt(t *testing.T) {
	w := newWorld(t, Config{})
	for i := range 1000 {
		w.store.add(fmt.Sprint("k", i), "a")
	}
	deaths := w.crashWhen("e777", 1000)
	// Two before anybody is suspected, 500 to 1 in nine halvings, and three alone.
	if d, dead := w.store.dead[777]; !dead || d.Attempts != 3 || deaths > 2+9+3 {
		t.Errorf("dead letter %+v (%v) after %d deaths", d, dead, deaths)
	}
	if n := len(w.broker.firsts()); n != 999 || len(w.store.dead) != 1 {
		t.Errorf("%d sent, %d dead", n, len(w.store.dead))
	}
	w.wantSound(t)
}

func TestSeveralEventsThatKillAreAllFoundAndNobodyElse(t *testing.T) {
	w := newWorld(t, Config{BatchRows: 40})
	for i := range 200 {
		w.store.add(fmt.Sprint("k", i%50), fmt.Sprint("t", i%3))
	}
	deadly := map[string]bool{"e7": true, "e8": true, "e60": true, "e199": true}
	w.crashAt(1000, func(p *Publish) bool {
		return slices.ContainsFunc(p.Messages, func(m settle.Message) bool { return deadly[m.Event.ID] })
	})
	for id, d := range w.store.dead {
		if !deadly[fmt.Sprint("e", id)] || d.Class != settle.ClassCrashLoop {
			t.Errorf("e%d died: %+v", id, d)
		}
	}
	if len(w.store.dead) != len(deadly) {
		t.Errorf("%d dead letters, want %d", len(w.store.dead), len(deadly))
	}
	wantKeyOrder(t, w)
	w.wantSound(t)
}

func TestAStoreThatFailsAgainAndAgainMakesNoDeadLetterOfASuspect(t *testing.T) {
	w := newWorld(t, Config{})
	w.store.add("k", "a")
	w.crashAt(2, func(*Publish) bool { return true })
	for range 6 {
		w.until(t, "a try", func() bool { return len(w.pubs) > 0 })
		w.answer(0) // the broker has it
		w.store.fails[askCommit] = errNoAnswer
		w.until(t, "a load", func() bool { return w.m.phase == loading })
		delete(w.store.fails, askCommit)
	}
	w.run(10 * time.Second)
	w.wantSent(t, "e1")
	if len(w.store.dead) > 0 || len(w.store.parked) > 0 {
		t.Errorf("dead %v, parked %v", w.store.dead, w.store.parked)
	}
}

func TestNothingElseIsInFlightWhileATrialIs(t *testing.T) {
	w := newWorld(t, Config{BatchRows: 10})
	for i := range 100 {
		w.store.add(fmt.Sprint("k", i), fmt.Sprint("t", i%4))
	}
	w.crashAt(2, func(*Publish) bool { return true })
	trials := 0
	w.crashAt(1, func(*Publish) bool {
		written := 0
		for _, c := range w.calls {
			if c, ok := c.(Commit); ok {
				written += len(c.Flush.Attempts)
			}
		}
		if w.m.sus.trial.sent {
			trials++
		}
		if n := len(w.pubs); n > 1 && w.m.sus.trial.sent || written > 0 {
			t.Errorf("%d batches in flight, %d tries being written", n, written)
		}
		return false
	})
	if trials == 0 {
		t.Error("no trial")
	}
}

func TestATrialThatTheProcessSurvivesWithoutAnAnswerCountsForNothing(t *testing.T) {
	w := newWorld(t, Config{})
	for i := range 4 {
		w.store.add(fmt.Sprint("k", i), "a")
	}
	w.crashAt(2, func(*Publish) bool { return true })
	w.until(t, "a trial", func() bool { return len(w.pubs) > 0 })
	w.broker.refuse = func(m settle.Message) error {
		switch m.Event.ID {
		case "e1":
			return errNoAnswer
		case "e2":
			return &settle.PublishError{Scope: settle.ScopeRecord, Err: errNoAnswer}
		}
		return nil
	}
	w.answer(0)
	w.callAll()
	last := map[int64]Attempt{}
	for _, f := range w.store.commits {
		for _, a := range f.Attempts {
			last[a.ID] = a
		}
	}
	if a := last[1]; a.Attempts != 0 || a.Together != 0 || !a.Suspect {
		t.Errorf("no answer: %+v", a)
	}
	if a := last[2]; a.Attempts != 1 || a.Together != 0 || a.Suspect {
		t.Errorf("refused: %+v", a)
	}
	w.broker.refuse = nil
	w.run(time.Minute)
	if n := len(w.broker.firsts()); n != 4 {
		t.Errorf("%d sent", n)
	}
	w.wantSound(t)
}

func TestWhatCameAfterTheDeathsIsNotTriedAlone(t *testing.T) {
	w := newWorld(t, Config{})
	for i := range 6 {
		w.store.add(fmt.Sprint("k", i), "a")
	}
	w.store.add("timer", "a").Event.NotBefore = w.now.Add(2 * time.Minute)
	w.crashWhen("e3", 2)
	w.run(10 * time.Second)
	before := len(w.log)
	for i := range 20 {
		w.store.add(fmt.Sprint("new", i), "a")
	}
	w.run(3 * time.Minute)
	sent := 0
	for _, c := range w.log[before:] {
		switch c := c.(type) {
		case Publish:
			sent += len(c.Messages)
		case Commit:
			if len(c.Flush.Attempts) > 0 || len(c.Flush.Park) > 0 {
				t.Errorf("tried alone: %+v", c.Flush)
			}
		}
	}
	if sent != 21 || len(w.broker.firsts()) != 27 {
		t.Errorf("%d sent of 20 new ones and a timer; in all %v", sent, w.sent())
	}
	w.wantSound(t)
}

func TestTheTryOfASuspectIsWrittenDownBeforeItIsMade(t *testing.T) {
	w := newWorld(t, Config{})
	w.store.add("k", "a")
	w.crashWhen("e1", 2)
	before := len(w.log)
	w.run(time.Second)
	written := false
	for _, c := range w.log[before:] {
		switch c := c.(type) {
		case Commit:
			written = written || slices.ContainsFunc(c.Flush.Attempts, func(a Attempt) bool { return a.ID == 1 && a.Attempts == 1 && a.Suspect })
		case Publish:
			if !written {
				t.Errorf("published %v without a word", c)
			}
		}
	}
	w.wantSent(t, "e1")
}
