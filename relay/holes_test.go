package relay

import (
	"testing"
	"time"
)

func TestAHoleBlocksNothingAndItsRowIsSentWhenItShowsUp(t *testing.T) {
	w := newWorld(t, Config{})
	w.store.add("k", "a")
	late := w.store.allocate("x", "a")
	w.store.add("k", "a")
	w.run(time.Second)
	w.wantSent(t, "e1", "e3")
	if r := w.store.check.Readers[0]; len(r.Open) != 1 || r.Open[0] != late {
		t.Errorf("the hole is not in the checkpoint: %+v", r)
	}
	w.store.rows[late].visible = true
	w.run(time.Second)
	w.wantSent(t, "e1", "e3", "e2")
}

func TestAHoleIsRememberedOverACrash(t *testing.T) {
	w := newWorld(t, Config{})
	late := w.store.allocate("x", "a")
	w.store.add("k", "a")
	w.run(time.Second)
	w.kill()
	w.run(time.Second)
	w.store.rows[late].visible = true
	w.run(time.Second)
	w.wantSent(t, "e2", "e1")
}

func TestAHoleTurnsColdOnlyWithoutOwnersAfterItsMinimumAge(t *testing.T) {
	w := newWorld(t, Config{HoleAge: 2 * time.Second})
	open := true
	w.store.owners = func(before Evidence) Evidence {
		// Without a token nothing is asked, and an answer must not count.
		return Evidence{Known: true, Token: "t1", Clear: before.Token == "" || !open}
	}
	w.store.allocate("x", "a")
	w.store.add("k", "a")
	w.run(10 * time.Second)
	if len(w.store.gap) > 0 {
		t.Fatal("cold while its owner is open")
	}
	open = false
	w.run(3 * time.Second)
	if !w.store.gap[1] {
		t.Fatal("not cold although it has no owner")
	}
	if r := w.store.check.Readers[0]; len(r.Open) != 0 {
		t.Errorf("still open: %v", r.Open)
	}
	w.wantSound(t)
}

func TestAYoungHoleIsNotCold(t *testing.T) {
	w := newWorld(t, Config{HoleAge: 2 * time.Second})
	w.run(time.Second)
	w.store.allocate("x", "a")
	w.store.add("k", "a")
	w.run(1900 * time.Millisecond)
	if len(w.store.gap) > 0 {
		t.Error("cold before its minimum age")
	}
	w.run(time.Second)
	if !w.store.gap[1] {
		t.Error("never cold")
	}
}

func TestWhereOwnersCannotBeAskedGraceCounts(t *testing.T) {
	w := newWorld(t, Config{HoleGrace: 30 * time.Second})
	w.store.owners = func(Evidence) Evidence { return Evidence{} }
	w.store.allocate("x", "a")
	w.store.add("k", "a")
	w.run(29 * time.Second)
	if len(w.store.gap) > 0 {
		t.Error("cold before the grace is over")
	}
	w.run(5 * time.Second)
	if !w.store.gap[1] {
		t.Error("never cold")
	}
}

func TestARowBehindAColdHoleIsFoundBySweepAndSent(t *testing.T) {
	w := newWorld(t, Config{})
	w.store.allocate("x", "a")
	w.store.add("k", "a")
	w.run(10 * time.Second)
	if !w.store.gap[1] {
		t.Fatal("not cold")
	}
	w.store.rows[1].visible = true
	w.run(31 * time.Second)
	w.wantSent(t, "e2", "e1")
	if got := w.m.Stats(w.now).Late; got != 1 {
		t.Errorf("late = %d", got)
	}
}

func TestAWideJumpOfIdsIsPassedPieceByPieceInBoundedMemory(t *testing.T) {
	w := newWorld(t, Config{MaxHoles: 10})
	w.store.add("k", "a")
	w.store.nextID += 35
	w.store.add("k", "a")
	for range 400 {
		w.run(100 * time.Millisecond)
		if n := len(w.m.main.unseen); n > 10 {
			t.Fatalf("%d holes in memory", n)
		}
	}
	w.wantSent(t, "e1", "e37")
}
