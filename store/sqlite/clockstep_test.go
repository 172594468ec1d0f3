package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/sqlite"
)

// A clock that is set back must not make the lease of a process that is gone
// last as much longer.

func openTwo(t *testing.T, clock *testClock) (one, other *sqlite.Store) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "order.db")
	stores := [2]*sqlite.Store{}
	for i := range stores {
		s, err := sqlite.Open(t.Context(), path, sqlite.Config{Clock: clock.now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		stores[i] = s
	}
	return stores[0], stores[1]
}

const ttl = 10 * time.Second

func TestAClockSetBackDelaysATakeoverByOneLeaseOnly(t *testing.T) {
	clock := &testClock{at: time.Now()}
	one, other := openTwo(t, clock)
	first, err := one.Log().Lead(t.Context(), "first", 0, ttl)
	if err != nil || !first.Held {
		t.Fatalf("first: %+v, %v", first, err)
	}
	clock.pass(-24 * time.Hour)
	log := other.Log()
	if l, err := log.Lead(t.Context(), "second", 0, ttl); err != nil || l.Held {
		t.Fatalf("before a lease time has passed: %+v, %v", l, err)
	}
	clock.pass(ttl + time.Second)
	second, err := log.Lead(t.Context(), "second", 0, ttl)
	if err != nil || !second.Held || second.Epoch <= first.Epoch {
		t.Fatalf("a lease time after the clock was set back: %+v, %v", second, err)
	}
}

func TestAClockSetBackTakesNoLeaseFromALeaderThatLives(t *testing.T) {
	clock := &testClock{at: time.Now()}
	one, other := openTwo(t, clock)
	log, standby := one.Log(), other.Log()
	first, err := log.Lead(t.Context(), "first", 0, ttl)
	if err != nil || !first.Held {
		t.Fatalf("first: %+v, %v", first, err)
	}
	clock.pass(-24 * time.Hour)
	for range 6 {
		if l, err := standby.Lead(t.Context(), "second", 0, ttl); err != nil || l.Held {
			t.Fatalf("the standby: %+v, %v", l, err)
		}
		clock.pass(ttl / 3)
		if l, err := log.Lead(t.Context(), "first", 0, ttl); err != nil || !l.Held || l.Epoch != first.Epoch {
			t.Fatalf("the leader: %+v, %v", l, err)
		}
	}
}

func TestAClockSetBackOrphansNoPartition(t *testing.T) {
	clock := &testClock{at: time.Now()}
	one, other := openTwo(t, clock)
	request := func(owner string) settle.ClaimRequest {
		return settle.ClaimRequest{Group: "g", Topic: "t", Partitions: 4, Owner: owner, TTL: ttl}
	}
	if c, err := one.Inbox().Claim(t.Context(), request("first")); err != nil || len(c) != 4 {
		t.Fatalf("first: %+v, %v", c, err)
	}
	clock.pass(-24 * time.Hour)
	in := other.Inbox()
	for range 4 {
		if _, err := in.Claim(t.Context(), request("second")); err != nil {
			t.Fatal(err)
		}
		clock.pass(ttl / 3)
	}
	if c, err := in.Claim(t.Context(), request("second")); err != nil || len(c) != 4 {
		t.Fatalf("a lease time after the clock was set back the member that lives has %d of 4 partitions, %v", len(c), err)
	}
}
