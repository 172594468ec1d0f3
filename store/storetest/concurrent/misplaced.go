package concurrent

import (
	"fmt"

	"github.com/settlemq/settle"
)

// Misplaced says what is wrong with a broker's log of what Write has written: of
// each key, the first copies must be 1, 2, 3 … up to what was committed.
func Misplaced(log []settle.Record, want map[string]int64) (wrong []string) {
	seen, last := map[string]bool{}, map[string]int64{}
	for _, r := range log {
		e := r.Event
		if e == nil || seen[e.ID] {
			continue
		}
		seen[e.ID] = true
		switch {
		case e.Type != keyCounted:
			wrong = append(wrong, fmt.Sprintf("%s was undone and is there", e.ID))
		case e.AggregateSeq != last[e.AggregateID]+1:
			wrong = append(wrong, fmt.Sprintf("%s: %d behind %d", e.AggregateID, e.AggregateSeq, last[e.AggregateID]))
		}
		last[e.AggregateID] = max(last[e.AggregateID], e.AggregateSeq)
	}
	for key, n := range want {
		if last[key] != n {
			wrong = append(wrong, fmt.Sprintf("%s: came to %d of %d", key, last[key], n))
		}
	}
	for key := range last {
		if want[key] == 0 {
			wrong = append(wrong, key+" was never committed")
		}
	}
	return wrong
}
