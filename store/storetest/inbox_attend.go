package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

func attendCases[Tx any]() []InboxCase[Tx] {
	return []InboxCase[Tx]{
		{"a member that ends without release is told of, with what it had in hand", departedAreTold[Tx]},
		{"a member that lives, or has left, is no death", livingAreNoDeaths[Tx]},
		{"a member that died long ago is forgotten", departedAreForgotten[Tx]},
	}
}

func (g *group[Tx]) attend(owner string, ttl, remember time.Duration) settle.Departed {
	g.Helper()
	d, err := g.Inbox.Attend(g.ctx, settle.Attendance{Group: "inventory", Owner: owner, TTL: ttl, Remember: remember})
	if err != nil {
		g.Fatalf("Attend: %v", err)
	}
	slices.Sort(d.InHand)
	return d
}

func (g *group[Tx]) hold(owner string, slot int, ids ...string) {
	g.Helper()
	if err := g.Inbox.Hold(g.ctx, settle.Hand{Group: "inventory", Owner: owner, Slot: slot, EventIDs: ids}); err != nil {
		g.Fatalf("Hold: %v", err)
	}
}

// awaitDeaths attends as owner until so many have died.
func (g *group[Tx]) awaitDeaths(owner string, n int) settle.Departed {
	g.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if d := g.attend(owner, time.Minute, time.Hour); d.Deaths == n {
			return d
		}
	}
	g.Fatalf("%s is never told of %d deaths", owner, n)
	return settle.Departed{}
}

func departedAreTold[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	if d := g.attend("x", time.Millisecond, time.Hour); d.Deaths != 0 || len(d.InHand) != 0 {
		t.Fatalf("the first member is told of %+v", d)
	}
	g.hold("x", 1, "1", "2")
	g.hold("x", 2, "3")
	g.hold("x", 1, "4", "a \"b\" \\ '")
	g.attend("w", time.Millisecond, time.Hour)
	d := g.awaitDeaths("y", 2)
	if want := []string{"3", "4", "a \"b\" \\ '"}; !slices.Equal(d.InHand, want) {
		t.Fatalf("after its death %q are told, want what it wrote down last in each slot: %q", d.InHand, want)
	}
	other, err := s.Inbox.Attend(g.ctx, settle.Attendance{Group: "other", Owner: "y", TTL: time.Minute, Remember: time.Hour})
	if err != nil || other.Deaths != 0 || len(other.InHand) != 0 {
		t.Fatalf("another group is told of %+v, %v", other, err)
	}
}

func livingAreNoDeaths[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	g.attend("x", time.Millisecond, time.Hour)
	g.hold("x", 1, "1")
	g.awaitDeaths("y", 1)
	g.hold("y", 1, "2")
	if d := g.attend("z", time.Minute, time.Hour); d.Deaths != 1 || !slices.Equal(d.InHand, []string{"1"}) {
		t.Fatalf("one has died with event 1 in hand, told of is %+v", d)
	}
	g.attend("x", time.Minute, time.Hour) // it was only silent
	if d := g.attend("z", time.Minute, time.Hour); d.Deaths != 0 || len(d.InHand) != 0 {
		t.Fatalf("all live, told of is %+v", d)
	}
	g.attend("gone", time.Millisecond, time.Hour)
	g.hold("gone", 1, "3")
	g.awaitDeaths("z", 1)
	if err := s.Inbox.Release(g.ctx, "inventory", "gone"); err != nil {
		t.Fatal(err)
	}
	if d := g.attend("z", time.Minute, time.Hour); d.Deaths != 0 || len(d.InHand) != 0 {
		t.Fatalf("the one that left is told of: %+v", d)
	}
}

func departedAreForgotten[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	g.attend("x", time.Millisecond, time.Hour)
	g.hold("x", 1, "1")
	g.awaitDeaths("y", 1)
	time.Sleep(2 * time.Millisecond) // since it died more has passed than is remembered below
	if d := g.attend("y", time.Minute, time.Millisecond); d.Deaths != 0 || len(d.InHand) != 0 {
		t.Fatalf("after its time it is told of: %+v", d)
	}
}
