package consumer

import (
	"errors"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// failAlone delivers one event whose transaction fails n times and returns
// what the machine wanted done with it at last. Reads are answered if reads is
// true, and fail otherwise.
func failAlone(n int, reads bool) settle.Intent {
	down := errors.New("down")
	now := time.Unix(1_800_000_000, 0)
	m := NewMachine("g", map[string]HandlerRule{"t": {}}, Config{})
	record := settle.Record{Position: 1, Event: &settle.Event{ID: "e1", Type: "t", AggregateID: "k", Version: 1}}
	queue := []Input{Tick{}, ControlsLoaded{}, Delivered{ID: 1, Partition: settle.Partition{Topic: "a", Epoch: 1}, Records: []settle.Record{record}}}
	last, failed := settle.IntentHandle, 0
	for failed < n {
		if len(queue) == 0 {
			now = now.Add(time.Second)
			queue = append(queue, Tick{})
		}
		in := queue[0]
		queue = queue[1:]
		for _, c := range m.Step(now, in) {
			switch c := c.(type) {
			case Apply:
				last = c.Work.Items[0].Intent
				failed++
				queue = append(queue, Applied{ID: c.ID, Err: down})
			case LoadControls:
				if failed > 0 && !reads {
					queue = append(queue, ControlsLoaded{Err: down})
				} else if failed > 0 {
					queue = append(queue, ControlsLoaded{})
				}
			case LoadDue:
				if reads || failed == 0 {
					queue = append(queue, DueLoaded{})
				} else {
					queue = append(queue, DueLoaded{Err: down})
				}
			}
		}
	}
	return last
}

func TestAStoreThatAnswersNothingCostsAnEventNothing(t *testing.T) {
	if got := failAlone(12, false); got != settle.IntentHandle {
		t.Errorf("after 12 failures of a store that is down the intent is %v", got)
	}
}

func TestAnEventThatAloneCanNotBeCommittedIsMovedAside(t *testing.T) {
	if got := failAlone(12, true); got != settle.IntentPark {
		t.Errorf("after 12 failures beside a store that answers the intent is %v", got)
	}
}

// A disk that is full is read from and not written to: the retry that was in
// hand when it filled up is as it was before, once there is room.
func TestARetryThatAFullDiskInterruptsLosesNoAttempt(t *testing.T) {
	r := newRig(t, Config{Retry: settle.Backoff{Base: time.Second}}, "t")
	r.handle = failing(errBoom, "a1")
	r.deliver(1, 0, event("a", 1))
	r.wantRow("a1", 1, settle.ClassHandler, false)
	r.handle = failing(nil)
	full := errors.New("disk full")
	r.in.fail = func(w settle.Work) error {
		if w.Items[0].Intent == settle.IntentHandle { // the attempt was written down just before
			r.in.fail = func(settle.Work) error { return full }
			return full
		}
		return nil
	}
	r.pass(10 * time.Minute)
	r.in.fail = nil
	r.pass(10 * time.Minute)
	r.wantEffects("a1")
	for _, w := range r.works {
		if it := w.Items[0]; it.Intent == settle.IntentHandle && it.Attempt > 2 {
			t.Errorf("attempt %d is made, want the second", it.Attempt)
		}
	}
	if s := r.m.Stats(r.now); s.Failed != 1 || s.Dead != 0 {
		t.Errorf("stats are %+v", s)
	}
}

func TestWhoStopsDoesNotCallTheStoreDown(t *testing.T) {
	r := newRig(t, Config{}, "t")
	for _, in := range []Input{Stopping{}, DueLoaded{Err: errBoom}, ControlsLoaded{Err: errBoom}, Forgotten{Err: errBoom}} {
		r.step(in)
	}
	if len(r.notes) != 0 {
		t.Errorf("notes are %v", r.notes)
	}
}
