package storetest

import (
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
)

const (
	beyondWindow  = settle.VerdictBeyondWindow
	outOfSequence = settle.VerdictOutOfSequence
	sequenceGap   = settle.VerdictSequenceGap
)

// appended makes an item of an event that was appended so long ago.
func appended(key, id string, ago time.Duration) settle.Item {
	it := edit(on(key, id), func(e *settle.Event) { e.AppendedAt = time.Now().Add(-ago) })
	return it
}

// forget moves the dedup floor to so long ago, and returns how many rows went.
func forget[Tx any](g *group[Tx], ago time.Duration) int {
	g.Helper()
	n, err := g.Inbox.Forget(g.ctx, g.work.Group, time.Now().Add(-ago), 100)
	if err != nil {
		g.Fatalf("Forget: %v", err)
	}
	return n
}

// ordered is a group that follows the producer's count.
func ordered[Tx any](t testing.TB, s InboxStore[Tx]) *group[Tx] {
	g := newGroup(t, s)
	g.work.OrderedBySeq, g.work.GapTimeout = true, time.Hour
	return g
}

// instead makes an item of an event that was edited from another.
func instead(key, id, of string) settle.Item {
	return edit(on(key, id), func(e *settle.Event) { e.Supersedes = of })
}

func windowCases[Tx any]() []InboxCase[Tx] {
	return []InboxCase[Tx]{
		{"an event older than the dedup floor and unknown becomes a dead letter that holds nothing", beyondWindowDies[Tx]},
		{"an event beyond the window is replayed only if a duplicate is accepted", beyondWindowReplay[Tx]},
		{"an event inside the dedup window is known, one that was forgotten is not applied again", forgottenNotAgain[Tx]},
		{"the dedup floor never goes back, and other groups keep theirs", floorNeverBack[Tx]},
		{"forgetting leaves what waits and what is dead", forgetLeavesWaiting[Tx]},
		{"without the producer's time the broker's counts, with neither nothing is too old", brokerTimeCounts[Tx]},
	}
}

func sequenceCases[Tx any]() []InboxCase[Tx] {
	return []InboxCase[Tx]{
		{"the first event that a group sees sets the base of its sequence", firstSetsBase[Tx]},
		{"an event whose place was passed becomes a dead letter that holds nothing", passedPlaceDies[Tx]},
		{"an event with a gap before it waits until the gap is filled", gapIsFilled[Tx]},
		{"an event whose gap is not filled in time becomes a dead letter", gapTimesOut[Tx]},
		{"an event of a type that is not handled keeps its place in the sequence", ignoredKeepsPlace[Tx]},
		{"a failed event of a sequence holds those after it, and a discard passes its place", discardPassesPlace[Tx]},
		{"the place of an event that was discarded out of turn is no gap", discardOutOfTurn[Tx]},
	}
}

func lineageCases[Tx any]() []InboxCase[Tx] {
	return []InboxCase[Tx]{
		{"an edited event takes the place of the dead one and lets its key go on", editTakesPlace[Tx]},
		{"an edited event that fails waits in the place of the one it was edited from", editWaitsInPlace[Tx]},
		{"an edited event of one that took effect is a duplicate", editOfDone[Tx]},
		{"an event that comes after its edit is a duplicate", rootAfterEdit[Tx]},
		{"of two edits of one event the first takes effect, whichever they name", firstEditWins[Tx]},
	}
}

func beyondWindowDies[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	forget(g, time.Hour)
	g.apply(batch(appended("a", "1", 2*time.Hour), appended("a", "2", time.Minute)), beyondWindow, applied)
	g.apply(batch(appended("a", "1", 2*time.Hour)), stored)
	letters := g.letters(govern.StateOpen, "1")
	if letters[0].Class != settle.ClassBeyondWindow {
		t.Fatalf("its class is %s, want %s", letters[0].Class, settle.ClassBeyondWindow)
	}
	g.wantEffects("2")
}

func beyondWindowReplay[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	forget(g, time.Hour)
	g.apply(batch(appended("a", "1", 2*time.Hour)), beyondWindow)
	id := g.letters(govern.StateOpen, "1")[0].ID
	got, err := s.Governance.Replay(g.ctx, ann, govern.ReplayOptions{}, id)
	g.act(got, err, "refused")
	g.due()
	got, err = s.Governance.Replay(g.ctx, ann, govern.ReplayOptions{AcceptPossibleDuplicate: true}, id)
	g.act(got, err, "done")
	due := g.due("1")
	if !due[0].AcceptDuplicate {
		t.Fatal("the replayed event does not say that a duplicate is accepted")
	}
	g.apply(due, applied)
	g.letters(govern.StateReplayed, "1")
}

func forgottenNotAgain[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	g.apply(batch(appended("a", "1", time.Hour), appended("a", "2", time.Hour)), applied, applied)
	// What was recorded after the floor stays, however old its event is.
	forget(g, time.Minute)
	g.apply(batch(appended("a", "1", time.Hour)), duplicate)
	if n := forget(g, -time.Hour); n != 2 {
		t.Fatalf("Forget says that %d rows went, want 2", n)
	}
	g.apply(batch(appended("a", "1", time.Hour)), beyondWindow)
	g.wantEffects("1", "2")
}

func floorNeverBack[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	forget(g, time.Hour)
	forget(g, 10*time.Hour)
	g.apply(batch(appended("a", "1", 2*time.Hour)), beyondWindow)
	g.work.Group = "billing"
	g.apply(batch(appended("a", "1", 2*time.Hour)), applied)
}

func forgetLeavesWaiting[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	g.die(appended("b", "2", time.Hour))
	g.apply(batch(park(appended("a", "1", time.Hour)), appended("c", "3", time.Hour)), parked, applied)
	if n := forget(g, -time.Hour); n != 1 {
		t.Fatalf("Forget says that %d rows went, want 1", n)
	}
	g.apply(batch(appended("a", "1", time.Hour), appended("b", "2", time.Hour)), stored, stored)
	g.apply(g.due("1"), applied)
}

func brokerTimeCounts[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	forget(g, time.Hour)
	byBroker := edit(on("a", "1"), func(e *settle.Event) { e.AppendedAt = time.Time{} })
	byBroker.Record.RecordedAt = time.Now().Add(-2 * time.Hour)
	unknown := edit(on("b", "2"), func(e *settle.Event) { e.AppendedAt = time.Time{} })
	unknown.Record.RecordedAt = time.Time{}
	g.apply(batch(byBroker, unknown), beyondWindow, applied)
	if n := forget(g, -time.Hour); n != 0 {
		t.Fatalf("Forget says that %d rows went, want none", n)
	}
	g.apply(batch(unknown), duplicate)
}

func firstSetsBase[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := ordered(t, s)
	g.apply(batch(seq("a", 5), seq("a", 6)), applied, applied)
	g.apply(batch(seq("a", 4)), outOfSequence)
	g.wantEffects("a-5", "a-6")
}

func passedPlaceDies[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := ordered(t, s)
	g.apply(batch(seq("a", 2), seq("a", 1), seq("a", 3)), applied, outOfSequence, applied)
	letters := g.letters(govern.StateOpen, "a-1")
	if letters[0].Class != settle.ClassOutOfSequence {
		t.Fatalf("its class is %s, want %s", letters[0].Class, settle.ClassOutOfSequence)
	}
	got, err := s.Governance.Replay(g.ctx, ann, govern.ReplayOptions{}, letters[0].ID)
	g.act(got, err, "done")
	g.apply(g.due("a-1"), applied)
	g.wantEffects("a-2", "a-3", "a-1")
}

func gapIsFilled[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := ordered(t, s)
	g.apply(batch(seq("a", 1), seq("a", 4), seq("a", 3), seq("b", 1)), applied, sequenceGap, sequenceGap, applied)
	g.due()
	g.apply(batch(seq("a", 2)), applied)
	g.apply(g.due("a-3"), applied)
	g.apply(g.due("a-4"), applied)
	g.apply(batch(seq("a", 5)), applied)
	g.wantEffects("a-1", "b-1", "a-2", "a-3", "a-4", "a-5")
}

func gapTimesOut[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := ordered(t, s)
	g.work.GapTimeout = time.Nanosecond
	g.apply(batch(seq("a", 1), seq("a", 3)), applied, sequenceGap)
	// The consumer writes down an attempt before it makes it.
	note := g.due("a-3")
	note[0].Intent, note[0].Class = settle.IntentPark, settle.ClassSuspect
	g.apply(note, parked)
	g.apply(g.due("a-3"), dead)
	letters := g.letters(govern.StateOpen, "a-3")
	if letters[0].Class != settle.ClassSequenceGap {
		t.Fatalf("its class is %s, want %s", letters[0].Class, settle.ClassSequenceGap)
	}
	got, err := s.Governance.Replay(g.ctx, ann, govern.ReplayOptions{}, letters[0].ID)
	g.act(got, err, "done")
	g.apply(g.due("a-3"), applied)
	g.apply(batch(seq("a", 4)), applied)
}

func ignoredKeepsPlace[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := ordered(t, s)
	it := seq("a", 2)
	it.Intent = settle.IntentIgnore
	g.apply(batch(seq("a", 1), it, seq("a", 3)), applied, ignored, applied)
	late := seq("a", 2)
	late.Intent = settle.IntentIgnore
	g.apply(batch(late), ignored)
	g.wantEffects("a-1", "a-3")
}

func discardPassesPlace[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := ordered(t, s)
	g.apply(batch(seq("a", 1)), applied)
	letters := g.die(seq("a", 2))
	g.apply(batch(seq("a", 3), seq("a", 4)), blocked, blocked)
	got, err := s.Governance.Discard(g.ctx, ann, letters[0].ID)
	g.act(got, err, "done")
	g.apply(g.due("a-3", "a-4"), applied, applied)
	g.wantEffects("a-1", "a-3", "a-4")
}

func discardOutOfTurn[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := ordered(t, s)
	g.apply(batch(seq("a", 1), park(seq("a", 2))), applied, parked)
	letters := g.die(seq("a", 3))
	got, err := s.Governance.Discard(g.ctx, ann, letters[0].ID)
	g.act(got, err, "done")
	g.apply(batch(seq("a", 4)), blocked)
	g.apply(g.due("a-2", "a-4"), applied, applied)
	g.wantEffects("a-1", "a-2", "a-4")
}

func editTakesPlace[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	g.die(on("a", "1"))
	g.apply(batch(on("a", "2")), blocked)
	g.apply(batch(instead("a", "1b", "1")), applied)
	g.apply(g.due("2"), applied)
	g.apply(batch(on("a", "1")), duplicate)
	g.wantEffects("1b", "2")
	g.letters(govern.StateOpen)
	if l := g.letters(govern.StateSuperseded, "1"); l[0].ClosedAt == nil || l[0].ClosedBy == "" {
		t.Fatalf("the dead letter is %+v; want it closed, with by what", l[0])
	}
}

func editWaitsInPlace[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	g.apply(batch(park(on("a", "1")), on("a", "2")), parked, blocked)
	g.apply(batch(park(instead("a", "1b", "1"))), parked)
	g.apply(g.due("1b", "2"), applied, applied)
	g.wantEffects("1b", "2")
}

func editOfDone[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	g.apply(batch(on("a", "1")), applied)
	g.apply(batch(instead("a", "1b", "1")), duplicate)
	g.wantEffects("1")
}

func rootAfterEdit[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	g.apply(batch(instead("a", "1b", "1"), on("a", "1")), applied, duplicate)
	g.apply(batch(on("a", "1")), duplicate)
	g.wantEffects("1b")
}

func firstEditWins[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	g.die(on("a", "1"))
	g.apply(batch(instead("a", "1b", "1")), applied)
	g.apply(batch(instead("a", "1c", "1b"), instead("a", "1d", "1")), duplicate, duplicate)
	g.wantEffects("1b")
}
