package concurrent_test

import (
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

func TestALogThatLacksAnEventOrHasOneTooManyIsFoundOut(t *testing.T) {
	record := func(id, key string, seq int64) settle.Record {
		return settle.Record{Event: &settle.Event{ID: id, Type: "key.counted", AggregateID: key, AggregateSeq: seq}}
	}
	undone := record("u", "k", 3)
	undone.Event.Type = "key.undone"
	sound := []settle.Record{record("a", "k", 1), record("x", "other", 1), record("b", "k", 2), record("a", "k", 1)}
	want := map[string]int64{"k": 2, "other": 1}
	if wrong := concurrent.Misplaced(sound, want); len(wrong) > 0 {
		t.Errorf("a sound log, with a second copy: %q", wrong)
	}
	for name, log := range map[string][]settle.Record{
		"the last is missing":  sound[:2],
		"the first is missing": sound[1:3],
		"undone":               append(sound[:3:3], undone),
		"never committed":      append(sound[:3:3], record("n", "none", 1)),
	} {
		if len(concurrent.Misplaced(log, want)) == 0 {
			t.Errorf("%s: nothing is found", name)
		}
	}
}
