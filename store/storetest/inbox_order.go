package storetest

import (
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
)

func orderCases[Tx any]() []InboxCase[Tx] {
	return []InboxCase[Tx]{
		{"a parked event holds what follows in its key, other keys flow", parkedHolds[Tx]},
		{"what is due comes with those behind it, and takes effect in order", dueInOrder[Tx]},
		{"a key goes on from where it stopped when what is due fails again", dueFailsAgain[Tx]},
		{"what waits for its time, and what waits behind it, is not due", notDue[Tx]},
		{"an answer of what is due is bounded and says that there is more", dueIsBounded[Tx]},
		{"with pass a failed event holds nothing", passHoldsNothing[Tx]},
		{"a dead event holds its key until it is discarded", deadHoldsKey[Tx]},
		{"a waiting event that was dealt with elsewhere is not dealt with again", dealtWithElsewhere[Tx]},
		{"an event that died in other hands is not run by a late owner", diedElsewhere[Tx]},
		{"what has taken effect can't be parked or die any more", doneStaysDone[Tx]},
		{"a waiting record that can't be read comes as one, beside the others", unreadableBesideOthers[Tx]},
	}
}

func parkedHolds[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	g.apply(batch(park(on("a", "1")), on("a", "2"), on("b", "3")), parked, blocked, applied)
	g.apply(batch(on("a", "4"), on("b", "5")), blocked, applied)
	g.apply(batch(on("a", "1"), on("a", "2"), on("a", "4")), stored, stored, stored)
	g.wantEffects("3", "5")
}

func dueInOrder[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	g.apply(batch(park(on("a", "1")), on("a", "2"), on("a", "3"), on("b", "4")), parked, blocked, blocked, applied)
	due := g.due("1", "2", "3")
	if due[0].Attempt != 1 || due[0].Class != settle.ClassHandler || due[0].Cause != "no stock" || due[1].Class != settle.ClassFollower {
		t.Fatalf("due are %+v; want attempt, class and cause as they were parked", due)
	}
	if r := due[0].Record; r.Headers["x"] != "y" || r.At.Offset != 7 || r.Position != 7 || string(r.Event.Payload) != `{"id":"1"}` {
		t.Fatalf("the record comes back as %+v; want it as it was delivered", r)
	}
	g.apply(append(due, on("a", "5")), applied, applied, applied, applied)
	g.due()
	g.wantEffects("4", "1", "2", "3", "5")
	g.apply(batch(on("a", "1")), duplicate)
}

func dueFailsAgain[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	g.apply(batch(park(on("a", "1")), on("a", "2"), on("a", "3")), parked, blocked, blocked)
	due := g.due("1", "2", "3")
	again := park(due[1])
	again.Attempt, again.NextAt = 1, time.Now().Add(time.Hour)
	g.apply(batch(due[0], again, due[2]), applied, parked, blocked)
	g.wantEffects("1")
	g.due()
	d, err := s.Inbox.Due(g.ctx, "inventory", 10)
	if err != nil || time.Until(d.Next).Round(time.Minute) != time.Hour {
		t.Fatalf("the next is due at %v, %v; want in an hour", d.Next, err)
	}
}

func notDue[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	later := park(on("a", "1"))
	later.NextAt = time.Now().Add(time.Hour)
	g.apply(batch(later, on("a", "2"), park(on("b", "3"))), parked, blocked, parked)
	g.due("3")
}

func dueIsBounded[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	g.apply(batch(park(on("a", "1")), on("a", "2"), park(on("b", "3"))), parked, blocked, parked)
	d, err := s.Inbox.Due(g.ctx, "inventory", 2)
	if err != nil || len(d.Items) != 2 || d.Next.IsZero() || d.Next.After(time.Now()) {
		t.Fatalf("Due gives %v, next %v, %v; want two events and more at once", ids(d.Items), d.Next, err)
	}
}

func passHoldsNothing[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	g.work.Pass = true
	g.apply(batch(park(on("a", "1")), on("a", "2")), parked, applied)
	g.die(on("a", "3"))
	g.apply(batch(on("a", "4")), applied)
	g.wantEffects("2", "4")
	due := g.due("1")
	g.apply(due, applied)
	g.wantEffects("2", "4", "1")
}

func deadHoldsKey[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	letters := g.die(on("a", "1"))
	g.apply(batch(on("a", "2"), on("a", "3")), blocked, blocked)
	g.due()
	if d, err := s.Governance.DeadLetter(g.ctx, letters[0].ID); err != nil || d.Behind != 2 {
		t.Fatalf("the dead letter is %+v, %v; want two behind it", d, err)
	}
	got, err := s.Governance.Discard(g.ctx, ann, letters[0].ID)
	g.act(got, err, "done")
	g.apply(g.due("2", "3"), applied, applied)
	g.apply(batch(on("a", "1")), duplicate)
	g.wantEffects("2", "3")
	g.letters(govern.StateOpen)
}

func dealtWithElsewhere[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	g.apply(batch(park(on("a", "1")), on("a", "2")), parked, blocked)
	due := g.due("1", "2")
	g.apply(due, applied, applied)
	g.apply(due, duplicate, duplicate)
	g.wantEffects("1", "2")
}

func diedElsewhere[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	g.apply(batch(park(on("a", "1"))), parked)
	late := g.due("1")
	g.die(g.due("1")...)
	g.apply(late, stored)
	g.wantEffects()
}

func doneStaysDone[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	g.apply(batch(on("a", "1")), applied)
	die := on("a", "1")
	die.Intent, die.Class = settle.IntentDie, settle.ClassHandler
	g.apply(batch(park(on("a", "1")), die), duplicate, duplicate)
	g.due()
	g.letters("any")
}

func unreadableBesideOthers[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	g.apply(batch(park(on("a", "1")), park(on("b", "2"))), parked, parked)
	if err := s.Garble(g.ctx, "inventory", "1"); err != nil {
		t.Fatal(err)
	}
	due := g.due("?", "2")
	if due[0].Record.DecodeErr == nil {
		t.Fatal("an unreadable record comes without an error")
	}
	g.apply(due, dead, applied)
	g.wantEffects("2")
}
