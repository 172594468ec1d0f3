package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
)

// Short names of what Apply finds.
const (
	applied   = settle.VerdictApplied
	rejected  = settle.VerdictRejected
	ignored   = settle.VerdictIgnored
	duplicate = settle.VerdictDuplicate
	stored    = settle.VerdictStored
	parked    = settle.VerdictParked
	blocked   = settle.VerdictBlocked
	dead      = settle.VerdictDead
	leftOver  = settle.VerdictLeftOver
	failed    = settle.VerdictFailed
	notRun    = settle.VerdictNotRun
)

var errNoStock = errors.New("no stock")

func applyCases[Tx any]() []InboxCase[Tx] {
	return []InboxCase[Tx]{
		{"an event delivered fifty times at once takes effect once", onceUnderFifty[Tx]},
		{"an event delivered twice in one batch takes effect once", onceInABatch[Tx]},
		{"a redelivered event is a duplicate, for its group only", redelivered[Tx]},
		{"a handler that fails leaves nothing of its event, and the event is new again", failedLeavesNothing[Tx]},
		{"a rejected event is done and keeps what its handler wrote", rejectedIsDone[Tx]},
		{"a panic of a handler is a failure that leaves nothing", panicIsContained[Tx]},
		{"an event of a type that is not handled leaves no record", ignoredLeavesNone[Tx]},
		{"a context that ends is nobody's failure and keeps nothing", contextEnds[Tx]},
		{"what a batch says before its commit decides about all of it", beforeCommitDecides[Tx]},
		{"of two events with one effect key the first takes effect", effectKeyOnce[Tx]},
		{"an effect key is held by what took effect, not by what waits", effectKeyOfWhatTookEffect[Tx]},
		{"a row that a foreign consumer has left is taken over once it is old", foreignLeftOver[Tx]},
		{"an event is handled, parked and dead also when its record has a time that no column holds", recordedAtAnyTime[Tx]},
	}
}

func onceUnderFifty[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if _, err := g.try(on("a", "1")); err != nil {
				g.Errorf("Apply: %v", err)
			}
		})
	}
	wg.Wait()
	g.wantEffects("1")
}

func onceInABatch[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	g.apply(batch(on("a", "1"), on("b", "2"), on("a", "1")), applied, applied, duplicate)
	g.wantEffects("1", "2")
}

func redelivered[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	g.apply(batch(on("a", "1")), applied)
	g.apply(batch(on("a", "1"), on("a", "2")), duplicate, applied)
	g.wantEffects("1", "2")
	g.work.Group = "billing"
	g.apply(batch(on("a", "1")), applied)
	g.wantEffects("1", "2", "1")
}

func failedLeavesNothing[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	g.fail["2"] = errNoStock
	results, err := g.try(on("a", "1"), on("b", "2"), on("c", "3"))
	if err != nil || results[1].Verdict != failed || !errors.Is(results[1].Err, errNoStock) {
		t.Fatalf("Apply gives %+v, %v; want event 2 failed with its error", results, err)
	}
	delete(g.fail, "2")
	for i, it := range batch(on("a", "1"), on("b", "2"), on("c", "3")) {
		if results[i].Verdict.Durable() {
			g.apply(batch(it), duplicate)
		} else {
			g.apply(batch(it), applied)
		}
	}
	// A store that keeps what it could has the other keys' effects earlier.
	g.wantEffectsInAnyOrder("1", "2", "3")
}

func rejectedIsDone[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	g.fail["1"] = settle.Reject("closed for today")
	g.apply(batch(on("a", "1"), on("a", "2")), rejected, applied)
	g.apply(batch(on("a", "1")), duplicate)
	g.wantEffects("1", "2")
	steps, err := s.Governance.Trail(g.ctx, "1")
	if err != nil || len(steps) != 1 || steps[0].Stage != govern.StageRejected {
		t.Fatalf("the trail is %+v, %v; want one rejection", steps, err)
	}
	contains(t, steps[0].Note, "closed for today")
}

func panicIsContained[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	w := settle.Work{Group: "inventory", Items: batch(on("a", "1"))}
	results, err := s.Inbox.Apply(g.ctx, w, func(ctx context.Context, tx Tx, _ int) error {
		if err := s.Effect(ctx, tx, "1"); err != nil {
			return err
		}
		panic("boom")
	})
	if err != nil || len(results) != 1 || results[0].Verdict != failed || results[0].Panic == "" {
		t.Fatalf("Apply gives %+v, %v; want a failure with its stack", results, err)
	}
	contains(t, results[0].Err.Error(), "boom")
	g.wantEffects()
	g.apply(batch(on("a", "1")), applied)
}

func ignoredLeavesNone[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	it := on("a", "1")
	it.Intent = settle.IntentIgnore
	g.apply(batch(it, on("a", "2")), ignored, applied)
	g.apply(batch(on("a", "1")), applied)
	g.wantEffects("2", "1")
}

func contextEnds[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	ctx, cancel := context.WithCancel(g.ctx)
	w := settle.Work{Group: "inventory", Items: batch(on("a", "1"))}
	_, err := s.Inbox.Apply(ctx, w, func(ctx context.Context, tx Tx, _ int) error {
		_ = s.Effect(ctx, tx, "1")
		cancel()
		return ctx.Err()
	})
	if err == nil {
		t.Fatal("Apply gives no error, so an event counts an attempt because the process stops")
	}
	g.wantEffects()
}

func beforeCommitDecides[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	g.work.BeforeCommit = func(context.Context) error { return errNoStock }
	g.apply(batch(on("a", "1"), on("b", "2")), notRun, notRun)
	g.wantEffects()
	calls := 0
	g.work.BeforeCommit = func(context.Context) error { calls++; return nil }
	g.apply(batch(on("a", "1")), applied)
	if calls != 1 {
		t.Fatalf("BeforeCommit was called %d times, want once", calls)
	}
}

func effectKeyOnce[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	with := func(it settle.Item) settle.Item { it.EffectKey = "payment-1"; return it }
	g.apply(batch(with(on("a", "1")), with(on("b", "2"))), applied, duplicate)
	g.apply(batch(with(on("c", "3"))), duplicate)
	g.apply(batch(on("d", "4")), applied)
	g.wantEffects("1", "4")
}

func effectKeyOfWhatTookEffect[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	with := func(it settle.Item) settle.Item { it.EffectKey = "payment-1"; return it }
	g.apply(batch(park(with(on("a", "1"))), with(on("a", "2")), with(on("b", "3"))), parked, blocked, applied)
	due := g.due("1", "2")
	g.apply(batch(with(due[0]), with(due[1])), duplicate, duplicate)
	g.wantEffects("3")
}

func foreignLeftOver[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	for id, left := range map[string]time.Duration{"1": time.Hour, "2": time.Minute} {
		if err := s.LeaveOver(g.ctx, "inventory", id, "PROCESSING", time.Now().Add(-left)); err != nil {
			t.Fatal(err)
		}
	}
	g.apply(batch(on("a", "1"), on("b", "2"), on("b", "3")), applied, leftOver, blocked)
	g.wantEffects("1")
	g.apply(batch(on("a", "1"), on("b", "2")), duplicate, leftOver)
	g.due()
}

// A foreign producer that counts a record's time in nanoseconds is not held to
// what a database can write down.
func recordedAtAnyTime[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	var dying []settle.Item
	nanoseconds, microseconds := time.UnixMilli(1_770_000_000_000_000_000), time.UnixMilli(1_770_000_000_000_000)
	for i, at := range []time.Time{nanoseconds, microseconds, time.Unix(-1<<60, 0), time.Date(0, 6, 1, 0, 0, 0, 0, time.UTC)} {
		record := func(key string) settle.Item {
			it := edit(on(fmt.Sprint(key, i), fmt.Sprint(key, i)), func(e *settle.Event) { e.AppendedAt = time.Time{} })
			it.Record.RecordedAt = at
			return it
		}
		g.apply(batch(record("a")), applied)
		g.apply(batch(park(record("b"))), parked)
		dying = append(dying, record("c"))
	}
	g.die(dying...)
	g.apply(batch(edit(on("d", "d"), func(e *settle.Event) { e.AppendedAt = time.Date(0, 6, 1, 0, 0, 0, 0, time.UTC) })), applied)
	if due, err := g.Inbox.Due(g.ctx, g.work.Group, 10); err != nil || len(due.Items) != 4 {
		t.Fatalf("Due gives %d items, %v; want 4", len(due.Items), err)
	}
}
