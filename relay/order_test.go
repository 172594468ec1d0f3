package relay

import (
	"fmt"
	"strconv"
	"testing"
)

// keyInversions names first copies of one key and topic that are not in the
// order of their ids.
func keyInversions(w *world) []string {
	var wrong []string
	last := map[string]int64{}
	for _, event := range w.broker.firsts() {
		id, err := strconv.ParseInt(event[1:], 10, 64)
		if err != nil {
			return []string{err.Error()}
		}
		e := w.store.rows[id].row.Event
		if !e.NotBefore.IsZero() {
			continue // a delayed event has no place in the order
		}
		k := e.Topic + "/" + e.AggregateID
		if id < last[k] {
			wrong = append(wrong, fmt.Sprintf("%s: e%d behind e%d", k, id, last[k]))
		}
		last[k] = id
	}
	return wrong
}

func wantKeyOrder(t *testing.T, w *world) {
	t.Helper()
	for _, wrong := range keyInversions(w) {
		t.Error(wrong)
	}
}
