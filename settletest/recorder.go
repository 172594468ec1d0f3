package settletest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// Recorder is an inbox that remembers what became of each event, so that a
// test can wait for it. It passes everything on to the inbox it wraps.
type Recorder[Tx any] struct {
	settle.Inbox[Tx]

	mu      sync.Mutex
	ends    map[end]settle.Verdict
	applied map[end]int
	changed chan struct{} // closed and replaced at each change
}

type end struct{ group, eventID string }

// Record wraps an inbox.
func Record[Tx any](inbox settle.Inbox[Tx]) *Recorder[Tx] {
	return &Recorder[Tx]{Inbox: inbox, ends: map[end]settle.Verdict{}, applied: map[end]int{}, changed: make(chan struct{})}
}

// Apply passes w on and remembers what is durable afterwards.
func (r *Recorder[Tx]) Apply(ctx context.Context, w settle.Work, handle func(context.Context, Tx, int) error) ([]settle.Result, error) {
	results, err := r.Inbox.Apply(ctx, w, handle)
	if err != nil {
		return results, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, result := range results {
		e := w.Items[i].Record.Event
		if e == nil || !result.Verdict.Durable() {
			continue
		}
		at := end{w.Group, e.ID}
		if result.Verdict == settle.VerdictApplied {
			r.applied[at]++
		}
		// A later duplicate says nothing new of an event that was applied.
		if r.applied[at] == 0 || result.Verdict == settle.VerdictApplied {
			r.ends[at] = result.Verdict
		}
	}
	close(r.changed)
	r.changed = make(chan struct{})
	return results, nil
}

// Await waits until each of groups has applied, rejected or ignored the event,
// or made it a dead letter, and returns the verdicts in the groups' order. It
// fails the test after 30 s, naming the groups that have not; an event that is
// parked for a retry is waited for.
func (r *Recorder[Tx]) Await(t testing.TB, eventID string, groups ...string) []settle.Verdict {
	t.Helper()
	late := time.After(30 * time.Second)
	for {
		verdicts, missing, changed := r.look(eventID, groups)
		if len(missing) == 0 {
			return verdicts
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("event %s did not settle within 30 s in %v", eventID, missing)
		}
	}
}

// Applied returns how often group has applied the event: 1, or Settle is broken.
func (r *Recorder[Tx]) Applied(group, eventID string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.applied[end{group, eventID}]
}

func (r *Recorder[Tx]) look(eventID string, groups []string) (verdicts []settle.Verdict, missing []string, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range groups {
		v, ok := r.ends[end{g, eventID}]
		if !ok || !final(v) {
			missing = append(missing, g)
			continue
		}
		verdicts = append(verdicts, v)
	}
	return verdicts, missing, r.changed
}

// final reports whether nothing more happens to an event by itself.
func final(v settle.Verdict) bool {
	switch v {
	case settle.VerdictParked, settle.VerdictBlocked, settle.VerdictSequenceGap, settle.VerdictLeftOver, settle.VerdictStored:
		return false
	}
	return true
}
