package mysql

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/store/migrate"
)

func openLayouts(t *testing.T, at string) *migrate.Schema {
	t.Helper()
	s, err := Schema(t.Context(), at, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func changeLayout(t *testing.T, s *migrate.Schema, to migrate.Layout) []string {
	t.Helper()
	steps, err := s.ChangeLayout(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	if layout, err := s.Layout(t.Context()); err != nil || layout != to {
		t.Fatalf("the layout is %q, %v; want %q", layout, err, to)
	}
	return steps
}

func indexFinding(t *testing.T, at string) doctor.Finding {
	t.Helper()
	all, err := NewDoctor(at, DoctorConfig{}).Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all[slices.IndexFunc(all, func(f doctor.Finding) bool { return f.Check == "indexes" })]
}

func TestALeanOutboxIsSearchedByEventIDOnlyAndNeverReadWhole(t *testing.T) {
	at := DatabaseForTest(t)
	s := OpenForTest(t, at, Config{})
	schema := openLayouts(t, at)
	plant(t, s, `INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload) SELECT CONCAT('e', i), 'x', CONCAT('k', i % 50), '' FROM `+numbers+` WHERE i <= 2000`)
	plant(t, s, `INSERT INTO t_outbox_parked (destination, aggregate_id, id, event_id, event_type, attempts, class, cause, parked_at)
 SELECT 't', CONCAT('k', i % 50), i, CONCAT('e', i), 'x', 0, 'c', '', UTC_TIMESTAMP(6) FROM `+numbers+` WHERE i <= 500`)
	found := func(id string) int {
		t.Helper()
		steps, err := s.Governance().Trail(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return len(steps)
	}
	unsearched := func(want bool) {
		t.Helper()
		if left, err := s.Governance().Unsearched(t.Context()); err != nil || left != want {
			t.Errorf("unsearched is %v, %v; want %v", left, err, want)
		}
	}
	plant(t, s, `INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload) VALUES ('only', 'x', 'lonely', '')`)
	unsearched(false)
	if found("lonely") == 0 {
		t.Error("the full layout does not find an event by its order id")
	}
	if steps := changeLayout(t, schema, migrate.LayoutLean); len(steps) != 1 || strings.Count(steps[0], "DROP INDEX ") != 3 {
		t.Errorf("lean was made by %q", steps)
	}
	if steps := changeLayout(t, schema, migrate.LayoutLean); len(steps) != 0 {
		t.Errorf("a second time it runs %q", steps)
	}
	unsearched(true)
	if found("lonely") != 0 || found("only") == 0 || found("k7") == 0 {
		t.Error("lean: want nothing by the order id, the event by its id, and what waits by its key")
	}
	args := func(query string) []any {
		return append(slices.Repeat([]any{"lonely"}, strings.Count(query, "?")-1), maxTrail)
	}
	outbox := func(query string) bool {
		return slices.ContainsFunc(readsWhole(planOf(t, s, query, args(query)...)), func(x step) bool {
			return slices.Contains([]string{"t_outbox_event", "e", "p"}, x.table)
		})
	}
	if outbox(resolveTrailLean) || !outbox(resolveTrail) {
		t.Errorf("want the trail of the full layout, and not the lean one, to read a lean outbox whole:\nlean %+v\nfull %+v",
			planOf(t, s, resolveTrailLean, args(resolveTrailLean)...), planOf(t, s, resolveTrail, args(resolveTrail)...))
	}
	if f := indexFinding(t, at); f.Verdict != doctor.OK || !strings.Contains(f.Found, "layout is lean") {
		t.Errorf("doctor says of lean: %+v", f)
	}
	// Opening it again, as a program that is updated does, leaves it lean.
	OpenForTest(t, at, Config{})
	unsearched(true)
	if steps := changeLayout(t, schema, migrate.LayoutFull); len(steps) != 1 || strings.Count(steps[0], "ADD KEY ") != 3 {
		t.Errorf("full was made by %q", steps)
	}
	unsearched(false)
	if f := indexFinding(t, at); found("lonely") == 0 || f.Verdict != doctor.OK || strings.Contains(f.Found, "lean") {
		t.Errorf("full again, the event is not found by its order id, or doctor says %+v", f)
	}
}

func plant(t *testing.T, s *Store, query string) {
	t.Helper()
	if _, err := s.own.ExecContext(t.Context(), query); err != nil {
		t.Fatalf("%v\n%s", err, query)
	}
}

func TestALayoutThatLacksAnIndexIsNamedAndMadeWhole(t *testing.T) {
	for _, to := range []migrate.Layout{migrate.LayoutLean, migrate.LayoutFull} {
		at := DatabaseForTest(t)
		s := OpenForTest(t, at, Config{})
		schema := openLayouts(t, at)
		plant(t, s, `ALTER TABLE t_outbox_event DROP INDEX i_outbox_biz`)
		if layout, err := schema.Layout(t.Context()); err != nil || layout != migrate.LayoutPartial {
			t.Errorf("the layout is %q, %v", layout, err)
		}
		if f := indexFinding(t, at); f.Verdict != doctor.Bad || !strings.Contains(f.Found, "i_outbox_biz of t_outbox_event is missing") {
			t.Errorf("doctor says %+v", f)
		}
		if left, err := s.Governance().Unsearched(t.Context()); err != nil || !left {
			t.Errorf("searched by what is not there (%v)", err)
		}
		changeLayout(t, schema, to)
	}
}

func TestAChangeOfLayoutGivesWayToThoseWhoUseTheOutbox(t *testing.T) {
	at := DatabaseForTest(t)
	s := OpenForTest(t, at, Config{})
	schema := openLayouts(t, at)
	// It has read the table, and the change can't come in before it ends.
	tx, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	var n int
	if err := tx.QueryRowContext(t.Context(), `SELECT count(*) FROM t_outbox_event`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changed := make(chan error, 1)
	go func() {
		_, err := schema.ChangeLayout(ctx, migrate.LayoutLean)
		changed <- err
	}()
	const waits = `SELECT count(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE 'ALTER TABLE t_outbox_event DROP%'`
	for waiting := 0; waiting == 0; {
		if err := s.own.QueryRowContext(t.Context(), waits).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	// The insert stands behind it, and would stand there until the transaction
	// ends if it did not give way.
	plant(t, s, `INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload) VALUES ('e', 'x', 'k', '')`)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-changed; err != nil {
		t.Fatal(err)
	}
	if layout, err := schema.Layout(t.Context()); err != nil || layout != migrate.LayoutLean {
		t.Errorf("the layout is %q, %v", layout, err)
	}
}
