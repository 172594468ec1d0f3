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
	queue := []Input{Tick{}, ControlsLoaded{}, Delivered{ID: 1, Partition: settle.Partition{Topic: "a"}, Records: []settle.Record{record}}}
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
