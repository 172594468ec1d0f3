package mysql

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
)

func TestTheDatabaseFindsTheLaneThatAKeyHasInARelay(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	s.plant(t, "CREATE TABLE t_key (id BIGINT NOT NULL PRIMARY KEY, k VARCHAR(1000) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci)")
	keys := []string{"", "order-1", "ORDER-1", "order-1 ", "order-2", "#7", "订单", "öl", "OL", strings.Repeat("x", 1000)}
	for i, key := range keys {
		s.plant(t, "INSERT INTO t_key VALUES (?, ?)", i, key)
	}
	// A column that takes keys for one which are not, too.
	for _, lanes := range []int{1, 2, 3, 4, 7, 64} {
		var id, got int
		n := 0
		err := each(t.Context(), s.reader, []any{&id, &got}, func() {
			n++
			own := keys[id]
			if own == "" {
				own = fmt.Sprint("#", id)
			}
			if want := relay.LaneOf(own, lanes); got != want {
				t.Errorf("key %.20q of row %d is in lane %d of %d, want %d", keys[id], id, got, lanes, want)
			}
		}, "SELECT id, "+laneOf("id", "k", lanes)+" FROM t_key")
		if err != nil || n != len(keys) {
			t.Fatal(n, err)
		}
	}
}

var somebody = govern.Act{By: "a person", Reason: "a test"}

func TestAChangeOfLanesIsAuditedOnceAndOneThatChangesNothingIsNot(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	g := s.Governance()
	for _, n := range []int{0, govern.MaxLanes + 1} {
		if _, err := g.Divide(t.Context(), somebody, n); err == nil {
			t.Errorf("%d lanes are ordered", n)
		}
	}
	for i, want := range []bool{true, false} {
		if d, err := g.Divide(t.Context(), somebody, 3); err != nil || d.Ordered != want || d.Generation != 2 || d.Lanes != 3 {
			t.Errorf("order %d: %+v, %v", i, d, err)
		}
	}
	entries, err := g.Audit(t.Context(), 0, 10)
	if err != nil || len(entries) != 1 || entries[0].Action != govern.ActionDivide || entries[0].Target != "3 lanes" || entries[0].Reason != somebody.Reason {
		t.Errorf("the audit has %+v, %v", entries, err)
	}
}

// endLane leads a lane and ends it.
func endLane(t *testing.T, s *Store, lane int) {
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

func orderLanes(t *testing.T, s *Store, n int) {
	t.Helper()
	if _, err := s.Governance().Divide(t.Context(), somebody, n); err != nil {
		t.Fatal(err)
	}
}

func TestAProgramThatKnowsOfNoLanesCanNotLeadOneThatHasEnded(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	orderLanes(t, s, 2)
	endLane(t, s, 0)
	// What such a program does when it takes a lease that was given back.
	_, err := s.DB().ExecContext(t.Context(), "UPDATE t_outbox_lease SET owner = 'old', epoch = epoch + 1, clean = false, deaths = 0 WHERE lane = 0")
	if err == nil || !strings.Contains(err.Error(), "c_outbox_lease_ended") {
		t.Errorf("it takes the lease: %v", err)
	}
}

func TestTheSchemaGoesBackFromOneLaneAndNotFromSeveral(t *testing.T) {
	at := DatabaseForTest(t)
	s := OpenForTest(t, at, Config{})
	schema, err := Schema(t.Context(), at, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = schema.Close() })
	orderLanes(t, s, 2)
	if _, err := schema.Down(t.Context(), 4); err == nil || !strings.Contains(err.Error(), "several lanes") {
		t.Fatalf("with a change under way it goes back: %v", err)
	}
	endLane(t, s, 0)
	endLane(t, s, 1)
	orderLanes(t, s, 1)
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
	if _, err := schema.Down(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	var cursor, leases int
	if err := s.Reader().QueryRowContext(t.Context(), "SELECT `cursor`, (SELECT count(*) FROM t_outbox_lease) FROM v_outbox_reader").Scan(&cursor, &leases); err != nil || cursor != 41 || leases != 1 {
		t.Errorf("a program from before goes on at %d with %d leases, %v; want 41", cursor, leases, err)
	}
}
