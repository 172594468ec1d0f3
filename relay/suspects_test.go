package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// crashWhen lets a process die whenever an event is handed to the broker.
func (w *world) crashWhen(event string, times int) {
	for range 400 {
		for i := range w.pubs {
			for _, m := range w.pubs[i].Messages {
				if m.Event.ID == event && times > 0 {
					times--
					w.kill()
					break
				}
			}
			if len(w.pubs) == 0 {
				break
			}
		}
		switch {
		case len(w.calls) > 0:
			w.call()
		case len(w.pubs) > 0:
			w.answer(0)
		default:
			w.now = w.now.Add(10 * time.Millisecond)
			w.step(Tick{})
		}
	}
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

func TestAfterUncleanEndsInnocentEventsAreTriedAloneAndSent(t *testing.T) {
	w := newWorld(t, Config{})
	for i := range 6 {
		w.store.add(fmt.Sprint("k", i%2), "a")
	}
	w.crashWhen("e3", 2)
	w.run(10 * time.Second)
	alone := 0
	for _, c := range w.log {
		if p, ok := c.(Publish); ok && len(p.Messages) == 1 {
			alone++
		}
	}
	if alone != 6 || len(w.broker.firsts()) != 6 {
		t.Errorf("%d tried alone, sent %v", alone, w.sent())
	}
	for _, f := range w.store.commits {
		for _, a := range f.Attempts {
			if a.Attempts != 1 || !a.Suspect {
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
	for i, c := range w.log {
		p, ok := c.(Publish)
		if !ok || i < len(w.log)/2 {
			continue
		}
		written := false
		for _, f := range w.store.commits {
			for _, a := range f.Attempts {
				written = written || a.ID == 1 && a.Suspect
			}
		}
		if !written {
			t.Errorf("published %v without a word", p)
		}
	}
	w.run(time.Second)
	w.wantSent(t, "e1")
}
