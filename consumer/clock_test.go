package consumer

import (
	"testing"
	"time"

	"github.com/settlemq/settle"
)

func TestAStoreWhoseClockIsBehindIsNotAskedWithoutAPause(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	m := NewMachine("g", map[string]HandlerRule{"t": {}}, Config{})
	asked, until := 0, now.Add(time.Second)
	queue := []Input{Tick{}}
	for len(queue) > 0 && now.Before(until) {
		in := queue[0]
		queue = queue[1:]
		for _, c := range m.Step(now, in) {
			switch c := c.(type) {
			case LoadControls:
				queue = append(queue, ControlsLoaded{})
			case LoadDue:
				asked++
				queue = append(queue, DueLoaded{Due: settle.Due{Next: now.Add(-time.Millisecond)}})
			case WaitUntil:
				if len(queue) == 0 {
					now = c.At
					queue = append(queue, Tick{})
				}
			}
		}
		now = now.Add(100 * time.Microsecond)
	}
	if asked < 2 || asked > 60 {
		t.Errorf("asked %d times in a second", asked)
	}
}
