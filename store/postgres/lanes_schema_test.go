package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

func TestTheDatabaseFindsTheLaneThatAKeyHasInARelay(t *testing.T) {
	s := postgres.OpenForTest(t, postgres.DatabaseForTest(t), postgres.Config{})
	for i, key := range []string{"", "order-1", "order-2", "#7", "订单", strings.Repeat("x", 1000)} {
		for _, lanes := range []int{1, 2, 3, 4, 7, 64} {
			var got int
			if err := s.Reader().QueryRowContext(t.Context(), "SELECT settle_lane($1, $2, $3)", i, key, lanes).Scan(&got); err != nil {
				t.Fatal(err)
			}
			own := key
			if own == "" {
				own = fmt.Sprint("#", i)
			}
			if want := relay.LaneOf(own, lanes); got != want {
				t.Errorf("key %.20q of row %d is in lane %d of %d, want %d", key, i, got, lanes, want)
			}
		}
	}
}

func TestAChangeOfLanesIsAuditedOnceAndOneThatChangesNothingIsNot(t *testing.T) {
	person := govern.Act{By: "a person", Reason: "a test"}
	s := postgres.OpenForTest(t, postgres.DatabaseForTest(t), postgres.Config{})
	g := s.Governance()
	for _, n := range []int{0, govern.MaxLanes + 1} {
		if _, err := g.Divide(t.Context(), person, n); err == nil {
			t.Errorf("%d lanes are ordered", n)
		}
	}
	for i, want := range []bool{true, false} {
		if d, err := g.Divide(t.Context(), person, 3); err != nil || d.Ordered != want || d.Generation != 2 || d.Lanes != 3 {
			t.Errorf("order %d: %+v, %v", i, d, err)
		}
	}
	entries, err := g.Audit(t.Context(), 0, 10)
	if err != nil || len(entries) != 1 || entries[0].Action != govern.ActionDivide || entries[0].Target != "3 lanes" || entries[0].Reason != person.Reason {
		t.Errorf("the audit has %+v, %v", entries, err)
	}
}

// endLane leads a lane and ends it.
func endLane(t *testing.T, s *postgres.Store, lane int) {
	t.Helper()
	log := s.Log()
	lease, err := log.Lead(t.Context(), "me", lane, time.Minute)
	if err == nil {
		lease.Ended = true
		err = log.Resign(t.Context(), lease)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAProgramThatKnowsOfNoLanesCanNotLeadOneThatHasEnded(t *testing.T) {
	s := postgres.OpenForTest(t, postgres.DatabaseForTest(t), postgres.Config{})
	concurrent.Divide(t, s.Governance(), 2)
	endLane(t, s, 0)
	// What such a program does when it takes a lease that was given back.
	_, err := s.DB().ExecContext(t.Context(), "UPDATE t_outbox_lease SET owner = 'old', epoch = epoch + 1, clean = false, deaths = 0 WHERE lane = 0")
	if err == nil || !strings.Contains(err.Error(), "check constraint") {
		t.Errorf("it takes the lease: %v", err)
	}
}

func TestTheSchemaGoesBackFromOneLaneAndNotFromSeveral(t *testing.T) {
	at := postgres.DatabaseForTest(t)
	s := postgres.OpenForTest(t, at, postgres.Config{})
	schema, err := postgres.Schema(t.Context(), at, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = schema.Close() })
	concurrent.Divide(t, s.Governance(), 2)
	if _, err := schema.Down(t.Context(), 6); err == nil || !strings.Contains(err.Error(), "several lanes") {
		t.Fatalf("with a change under way it goes back: %v", err)
	}
	endLane(t, s, 0)
	endLane(t, s, 1)
	concurrent.Divide(t, s.Governance(), 1)
	endLane(t, s, 2)
	log := s.Log()
	lease, err := log.Lead(t.Context(), "me", 3, time.Minute)
	if err == nil {
		err = log.Commit(t.Context(), lease, relay.Flush{Checkpoint: relay.Checkpoint{Number: 7, Readers: []relay.Reader{{Cursor: 41}}}})
	}
	if err == nil {
		err = log.Resign(t.Context(), lease)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := schema.Down(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	var cursor, leases int
	if err := s.Reader().QueryRowContext(t.Context(), "SELECT cursor, (SELECT count(*) FROM t_outbox_lease) FROM v_outbox_reader").Scan(&cursor, &leases); err != nil || cursor != 41 || leases != 1 {
		t.Errorf("a program from before goes on at %d with %d leases, %v; want 41", cursor, leases, err)
	}
}
