package storetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

func claim[Tx any](g *group[Tx], owner string, ttl time.Duration) []settle.Claim {
	g.Helper()
	got, err := g.Inbox.Claim(g.ctx, settle.ClaimRequest{Group: "inventory", Topic: "t", Owner: owner, Partitions: 4, TTL: ttl})
	if err != nil {
		g.Fatalf("Claim: %v", err)
	}
	return got
}

// inherit waits until owner has all partitions.
func inherit[Tx any](g *group[Tx], owner string) []settle.Claim {
	g.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		if got := claim(g, owner, time.Minute); len(got) == 4 {
			return got
		}
	}
	g.Fatalf("%s never gets the partitions of an owner whose lease has run out", owner)
	return nil
}

func move(c settle.Claim, to int64) []settle.FloorMove {
	return []settle.FloorMove{{Partition: c.Partition, To: settle.Floor{Generation: "g1", Position: to, EventID: fmt.Sprint("e", to)}}}
}

func ownerCases[Tx any]() []InboxCase[Tx] {
	return []InboxCase[Tx]{
		{"members share the partitions evenly, none has two owners", fairShares[Tx]},
		{"a floor moves with the effects, and the next owner starts from it", floorMoves[Tx]},
		{"the work of an owner that was replaced is refused wholly", replacedOwnerRefused[Tx]},
		{"a stream of another generation stops the work and keeps nothing of it", newGenerationStops[Tx]},
		{"owners that die in a row without moving the floor are counted", deathsCounted[Tx]},
		{"the floor of an idle partition rises and never goes back", idleFloorRises[Tx]},
	}
}

func fairShares[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	if got := claim(g, "x", time.Minute); len(got) != 4 {
		t.Fatalf("a member that is alone gets %d partitions, want 4", len(got))
	}
	if got := claim(g, "y", time.Minute); len(got) != 0 {
		t.Fatalf("a new member gets %d partitions that others hold, want none yet", len(got))
	}
	x, y := claim(g, "x", time.Minute), claim(g, "y", time.Minute)
	if len(x) != 2 || len(y) != 2 {
		t.Fatalf("two members get %d and %d partitions, want 2 each", len(x), len(y))
	}
	owned := map[int]bool{}
	for _, c := range append(x, y...) {
		if owned[c.Partition.Number] || c.Partition.Epoch == 0 || c.Expires.Before(time.Now()) {
			t.Fatalf("claims are %+v and %+v; want each partition once, with an epoch and a lease", x, y)
		}
		owned[c.Partition.Number] = true
	}
	if y[0].Deaths != 0 {
		t.Fatal("a partition that was given back counts a death")
	}
}

func floorMoves[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	c := claim(g, "x", time.Minute)
	g.work.Floors = move(c[1], 10)
	g.apply(batch(on("a", "1")), applied)
	g.fail["2"] = errNoStock
	g.work.Floors = move(c[1], 11)
	g.apply(batch(on("a", "2")), failed)
	if err := s.Inbox.Release(g.ctx, "inventory", "x"); err != nil {
		t.Fatal(err)
	}
	next := claim(g, "y", time.Minute)
	if len(next) != 4 || next[1].Floor != (settle.Floor{Generation: "g1", Position: 10, EventID: "e10"}) || next[1].Deaths != 0 {
		t.Fatalf("the next owner is told %+v; want all, floor 10 and no death", next)
	}
	if next[1].Partition.Epoch <= c[1].Partition.Epoch {
		t.Fatal("the epoch does not rise when the owner changes")
	}
}

func replacedOwnerRefused[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	old := claim(g, "x", time.Millisecond)
	inherit(g, "y")
	g.work.Floors = move(old[0], 10)
	if _, err := g.try(on("a", "1")); !errors.Is(err, settle.ErrFenced) {
		t.Fatalf("Apply of the old owner gives %v, want %v", err, settle.ErrFenced)
	}
	g.wantEffects()
	if err := s.Inbox.RaiseFloor(g.ctx, "inventory", old[0].Partition, move(old[0], 10)[0].To); !errors.Is(err, settle.ErrFenced) {
		t.Fatalf("RaiseFloor of the old owner gives %v, want %v", err, settle.ErrFenced)
	}
	g.work.Floors = nil
	g.apply(batch(on("a", "1")), applied)
}

func newGenerationStops[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	c := claim(g, "x", time.Minute)
	g.work.Floors = move(c[0], 10)
	g.apply(batch(on("a", "1")), applied)
	g.work.Floors[0].To = settle.Floor{Generation: "g2", Position: 11}
	if _, err := g.try(on("a", "2")); !errors.Is(err, settle.ErrNewGeneration) {
		t.Fatalf("Apply gives %v, want %v", err, settle.ErrNewGeneration)
	}
	if err := s.Inbox.RaiseFloor(g.ctx, "inventory", c[0].Partition, g.work.Floors[0].To); !errors.Is(err, settle.ErrNewGeneration) {
		t.Fatalf("RaiseFloor gives %v, want %v", err, settle.ErrNewGeneration)
	}
	g.wantEffects("1")
}

func deathsCounted[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	claim(g, "x", time.Millisecond)
	c := inherit(g, "y")
	if c[0].Deaths != 1 {
		t.Fatalf("after one death %d are counted", c[0].Deaths)
	}
	g.work.Floors = move(c[0], 10)
	g.apply(batch(on("a", "1")), applied)
	claim(g, "y", time.Millisecond)
	c = inherit(g, "z")
	if c[0].Deaths != 0 || c[1].Deaths != 2 {
		t.Fatalf("deaths are %d where the floor moved and %d where not, want 0 and 2", c[0].Deaths, c[1].Deaths)
	}
}

func idleFloorRises[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	c := claim(g, "x", time.Minute)
	for _, to := range []int64{20, 10} {
		if err := s.Inbox.RaiseFloor(g.ctx, "inventory", c[0].Partition, move(c[0], to)[0].To); err != nil {
			t.Fatal(err)
		}
	}
	if got := claim(g, "x", time.Minute)[0].Floor.Position; got != 20 {
		t.Fatalf("the floor is %d, want 20", got)
	}
}
