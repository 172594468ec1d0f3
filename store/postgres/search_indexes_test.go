package postgres

import (
	"slices"
	"strings"
	"testing"

	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/store/migrate"
)

func changeLayout(t *testing.T, at string, to migrate.Layout) []string {
	t.Helper()
	s, err := Schema(t.Context(), at, true)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	steps, err := s.ChangeLayout(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	if layout, err := s.Layout(t.Context()); err != nil || layout != to {
		t.Fatalf("the layout is %q, %v; want %q", layout, err, to)
	}
	return steps
}

func TestALeanOutboxIsSearchedByEventIDOnlyAndNeverReadWhole(t *testing.T) {
	at := DatabaseForTest(t)
	s := OpenForTest(t, at, Config{})
	fill(t, s)
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
	if steps := changeLayout(t, at, migrate.LayoutLean); len(steps) != 3 || !strings.HasPrefix(steps[0], "DROP INDEX CONCURRENTLY ") {
		t.Errorf("lean was made by %q", steps)
	}
	if steps := changeLayout(t, at, migrate.LayoutLean); len(steps) != 0 {
		t.Errorf("a second time it runs %q", steps)
	}
	unsearched(true)
	if found("lonely") != 0 || found("only") == 0 || found("k7") == 0 {
		t.Error("lean: want nothing by the order id, the event by its id, and dead letters by theirs")
	}
	for _, step := range planOf(t, s, resolveTrailLean) {
		if strings.Contains(step, "Seq Scan on t_outbox") {
			t.Errorf("the lean trail reads a whole table: %s", step)
		}
	}
	if plan := planOf(t, s, resolveTrail); !slices.ContainsFunc(plan, func(step string) bool { return strings.Contains(step, "Seq Scan on t_outbox_event") }) {
		t.Error("the trail of the full layout would not read a lean outbox whole, so nothing is shown here")
	}
	// Opening it again, as a program that is updated does, leaves it lean.
	OpenForTest(t, at, Config{})
	unsearched(true)
	if steps := changeLayout(t, at, migrate.LayoutFull); len(steps) != 3 || !strings.HasPrefix(steps[0], "CREATE INDEX CONCURRENTLY ") {
		t.Errorf("full was made by %q", steps)
	}
	unsearched(false)
	if found("lonely") == 0 {
		t.Error("full again, the event is not found by its order id")
	}
}

func plant(t *testing.T, s *Store, query string) {
	t.Helper()
	if _, err := s.own.Exec(t.Context(), query); err != nil {
		t.Fatalf("%v\n%s", err, query)
	}
}

// A change that was stopped leaves an index incomplete, or some indexes only.
func TestAChangeOfLayoutThatWasStoppedGoesOnAndIsNamed(t *testing.T) {
	for name, stop := range map[string]string{
		"while it was dropping": `DROP INDEX i_outbox_biz`,
		"while it was building": `UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'i_outbox_trace'::regclass`,
	} {
		for _, to := range []migrate.Layout{migrate.LayoutLean, migrate.LayoutFull} {
			at := DatabaseForTest(t)
			s := OpenForTest(t, at, Config{})
			plant(t, s, stop)
			schema, err := Schema(t.Context(), at, false)
			if err != nil {
				t.Fatal(err)
			}
			if layout, err := schema.Layout(t.Context()); err != nil || layout != migrate.LayoutPartial {
				t.Errorf("%s: the layout is %q, %v", name, layout, err)
			}
			_ = schema.Close()
			if left, err := s.Governance().Unsearched(t.Context()); err != nil || !left {
				t.Errorf("%s: searched by what is not there (%v)", name, err)
			}
			changeLayout(t, at, to)
		}
	}
}

func TestDoctorKnowsALeanOutboxFromOneThatLacksAnIndex(t *testing.T) {
	at := DatabaseForTest(t)
	s := OpenForTest(t, at, Config{})
	indexes := func() doctor.Finding {
		t.Helper()
		all, err := NewDoctor(at, DoctorConfig{}).Check(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return all[slices.IndexFunc(all, func(f doctor.Finding) bool { return f.Check == "indexes" })]
	}
	if f := indexes(); f.Verdict != doctor.OK || strings.Contains(f.Found, "lean") {
		t.Errorf("full: %+v", f)
	}
	changeLayout(t, at, migrate.LayoutLean)
	if f := indexes(); f.Verdict != doctor.OK || !strings.Contains(f.Found, "layout is lean") {
		t.Errorf("lean: %+v", f)
	}
	plant(t, s, `CREATE INDEX i_outbox_biz ON t_outbox_event (biz_key) WHERE biz_key IS NOT NULL`)
	if f := indexes(); f.Verdict != doctor.Bad || !strings.Contains(f.Found, "i_outbox_aggregate is missing") {
		t.Errorf("with one of the three: %+v", f)
	}
	changeLayout(t, at, migrate.LayoutFull)
	plant(t, s, `DROP INDEX u_outbox_event`)
	changeLayout(t, at, migrate.LayoutLean)
	if f := indexes(); f.Verdict != doctor.Bad || !strings.Contains(f.Found, "u_outbox_event is missing") {
		t.Errorf("lean without the index that refuses duplicates: %+v", f)
	}
}

func TestTwoProcessesDoNotChangeTheLayoutAtOnce(t *testing.T) {
	at := DatabaseForTest(t)
	s := OpenForTest(t, at, Config{})
	tx, err := s.own.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), layoutAlone); err != nil {
		t.Fatal(err)
	}
	schema, err := Schema(t.Context(), at, false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = schema.Close() }()
	if _, err := schema.ChangeLayout(t.Context(), migrate.LayoutLean); err == nil || !strings.Contains(err.Error(), errLayoutBusy.Error()) {
		t.Errorf("while another does, it says %v", err)
	}
}
