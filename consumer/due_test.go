package consumer

import (
	"slices"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// waiting puts n events of different keys, each failed once, into the retry store.
func waiting(t *testing.T, n int, class settle.Class, cfg Config) *rig {
	t.Helper()
	cfg.Retry, cfg.Breaker.DistinctKeys = settle.Backoff{Base: time.Second}, -1
	r := newRig(t, cfg, "t")
	var items []settle.Item
	for k := range n {
		e := event(string(rune('a'+k)), 1)
		items = append(items, settle.Item{
			Record: settle.Record{Event: e, Key: e.AggregateID, Raw: []byte("x")}, Intent: settle.IntentPark, Attempt: 1, NextAt: r.now, Class: class, Cause: "boom",
		})
	}
	if _, err := r.in.Apply(t.Context(), settle.Work{Group: "g", Items: items}, nil); err != nil {
		t.Fatal(err)
	}
	return r
}

// inFlight lets time pass until retries are being handled and returns whose.
func (r *rig) inFlight() (keys []string) {
	r.manual = true
	r.pass(2 * time.Second)
	for _, c := range r.pending {
		for _, it := range c.Work.Items {
			keys = append(keys, it.Record.Key)
		}
	}
	return keys
}

func TestRetriesOfSeveralKeysAreTriedAtATimeAndBounded(t *testing.T) {
	r := waiting(t, 8, settle.ClassHandler, Config{Concurrency: 3})
	keys := r.inFlight()
	slices.Sort(keys)
	if len(keys) != 3 || len(slices.Compact(keys)) != 3 {
		t.Errorf("in flight are %v, want three of different keys", keys)
	}
	for len(r.pending) > 0 {
		if len(r.pending) > 3 {
			t.Fatalf("%d works are in flight", len(r.pending))
		}
		r.finish()
	}
	r.manual = false
	r.pass(time.Minute)
	if got := r.in.applied(); len(got) != 8 {
		t.Errorf("effects are %v, want all eight", got)
	}
}

// Should the process die again, one is to blame.
func TestOfWhatWasInHandWhenAProcessDiedOneIsTriedAtATime(t *testing.T) {
	r := waiting(t, 8, settle.ClassSuspect, Config{Concurrency: 3})
	if keys := r.inFlight(); len(keys) != 1 {
		t.Errorf("in flight are %v, want one", keys)
	}
}
