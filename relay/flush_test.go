package relay

import (
	"testing"
	"time"
)

// volatileWorld leads an outbox whose rows might vanish until something is
// committed, and has published its first row: nobody has answered yet.
func volatileWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, Config{})
	w.run(time.Second)
	w.store.notDurable = true
	w.store.add("k", "a")
	w.step(Woken{})
	for len(w.pubs) == 0 && len(w.calls) > 0 {
		w.call()
	}
	if len(w.pubs) != 1 {
		t.Fatal("nothing is published")
	}
	return w
}

// wantNext runs the next store call, of which it wants the kind, and wants so
// many batches to be under way then.
func (w *world) wantNext(t *testing.T, k kind, batches int) {
	t.Helper()
	if len(w.calls) == 0 || kindOf(w.calls[0]) != k {
		t.Fatalf("asks for %v", w.calls)
	}
	w.call()
	if len(w.pubs) != batches {
		t.Fatalf("%d batches are published, want %d", len(w.pubs), batches)
	}
}

func TestACommitThatWaitsBehindThePollMakesItsRowsDurable(t *testing.T) {
	w := volatileWorld(t)
	w.store.add("k2", "a")
	w.answer(0) // the commit of this stands behind the poll
	w.wantNext(t, askPoll, 0)
	w.wantNext(t, askCommit, 1)
}

func TestACommitThatIsSentBeforeThePollDoesNotMakeItsRowsDurable(t *testing.T) {
	w := volatileWorld(t)
	w.wantNext(t, askPoll, 1)
	w.answer(0)
	w.step(Woken{}) // the poll of this stands behind the commit
	w.store.add("k2", "a")
	w.wantNext(t, askCommit, 0)
	w.wantNext(t, askPoll, 0)
	for len(w.calls) > 0 && kindOf(w.calls[0]) != askCommit {
		w.call()
	}
	w.wantNext(t, askCommit, 1)
}

func TestAfterASilenceTheWaitForTheNextPollIsAFifthOfIt(t *testing.T) {
	w := newWorld(t, Config{MaxIdle: 25 * time.Millisecond})
	w.run(time.Second)
	read := func() (took time.Duration) {
		row, appended := w.store.add("k", "a"), w.now
		for w.m.main.cursor < row.ID {
			w.run(100 * time.Microsecond)
		}
		return w.now.Sub(appended)
	}
	for _, silence := range []time.Duration{3 * time.Millisecond, 20 * time.Millisecond, 60 * time.Millisecond, time.Second} {
		read()
		w.run(silence)
		limit := min(25*time.Millisecond, max(time.Millisecond, silence/idleShare)) + 200*time.Microsecond
		if took := read(); took > limit {
			t.Errorf("%v after the last row the next was read after %v, want %v", silence, took, limit)
		}
	}
}
