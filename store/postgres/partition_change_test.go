package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
)

// changePartitions returns the SQL that was run.
func changePartitions(t *testing.T, at string, ids int64) ([]string, error) {
	t.Helper()
	s, err := Schema(t.Context(), at, true)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	return s.ChangePartitions(t.Context(), ids)
}

// eventsOf are the rows of an outbox, and the id that its sequence gives next.
func eventsOf(t *testing.T, s *Store) string {
	t.Helper()
	var all string
	err := s.own.QueryRow(t.Context(), `SELECT coalesce(string_agg(id || ':' || event_id || ':' || encode(payload, 'escape'), ' ' ORDER BY id), '') || ' ' ||
 (1 + pg_sequence_last_value(pg_get_serial_sequence('t_outbox_event', 'id')::regclass)) FROM t_outbox_event`).Scan(&all)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func appendOne(t *testing.T, s *Store, id string) error {
	t.Helper()
	return pgx.BeginFunc(t.Context(), s.business, func(tx pgx.Tx) error {
		return s.Pgx().Append(t.Context(), tx, &settle.Event{ID: id, Type: "x", AggregateID: "k", Payload: []byte("{}")})
	})
}

func TestAnOutboxInUseIsDividedAndMadeOneAgain(t *testing.T) {
	at := DatabaseForTest(t) + "&synchronous_commit=off"
	s := OpenForTest(t, at, Config{})
	reader := "reader_" + strings.ReplaceAll(settle.NewID(), "-", "")
	plant(t, s, "CREATE ROLE "+reader+"; GRANT SELECT ON t_outbox_event TO "+reader)
	defer plant(t, s, "DROP OWNED BY "+reader+"; DROP ROLE "+reader)
	for i := range 5 {
		plant(t, s, insertOf(fmt.Sprint("e", i)))
	}
	plant(t, s, `DELETE FROM t_outbox_event WHERE id = 5`) // its id is not given again
	before := eventsOf(t, s)
	for i, ids := range []int64{10, 10, 0, 0} {
		steps, err := changePartitions(t, at, ids)
		if err != nil {
			t.Fatal(err)
		}
		if again := i%2 == 1; again != (len(steps) == 0) {
			t.Errorf("change %d runs %q", i, steps)
		}
		if after := eventsOf(t, s); after != before {
			t.Errorf("events were %q, with partitions of %d ids they are %q", before, ids, after)
		}
		var granted bool
		if err := s.own.QueryRow(t.Context(), "SELECT has_table_privilege($1, 't_outbox_event', 'SELECT')", reader).Scan(&granted); err != nil || !granted {
			t.Errorf("what was granted is gone (%v)", err)
		}
		// Connections that were there go on, and the relay reads.
		plant(t, s, insertOf(fmt.Sprint("later", i)))
		if p := pollTest(t, s.Log(), relay.PollQuery{}); len(p.Rows) != 5+i {
			t.Errorf("with partitions of %d ids a page has %d rows", ids, len(p.Rows))
		}
		if f := diagnose(t, at, DoctorConfig{})["indexes"]; f.Verdict != "ok" {
			t.Errorf("with partitions of %d ids: %+v", ids, f)
		}
		before = eventsOf(t, s)
	}
}

// A program that began before the outbox was divided is told once, and what it
// stores under an id of its own is refused twice, in whatever partition.
func TestAnEventIDIsRefusedInWhateverPartitionItStands(t *testing.T) {
	at := DatabaseForTest(t) + "&synchronous_commit=off"
	s := OpenForTest(t, at, Config{})
	if err := appendOne(t, s, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := changePartitions(t, at, 2); err != nil {
		t.Fatal(err)
	}
	if err := appendOne(t, s, "b"); err == nil || !strings.Contains(err.Error(), "try again") {
		t.Errorf("the first time it says %v", err)
	}
	for _, id := range []string{"b", "c", "d"} {
		if err := appendOne(t, s, id); err != nil {
			t.Error(err)
		}
	}
	for _, id := range []string{"a", "b", "c", "d"} {
		if err := appendOne(t, s, id); !errors.Is(err, settle.ErrDuplicateEvent) {
			t.Errorf("%s a second time: %v", id, err)
		}
		err := pgx.BeginFunc(t.Context(), s.business, func(tx pgx.Tx) error {
			var b pgx.Batch
			if err := s.Pgx().Queue(&b, &settle.Event{ID: id, Type: "x", AggregateID: "k", Payload: []byte("{}")}); err != nil {
				return err
			}
			return tx.SendBatch(t.Context(), &b).Close()
		})
		if !errors.Is(err, settle.ErrDuplicateEvent) {
			t.Errorf("%s queued a second time: %v", id, err)
		}
	}
	// An id of the table that is given twice is no event that is there.
	plant(t, s, `SELECT setval(pg_get_serial_sequence('t_outbox_event', 'id'), 1, false)`)
	if err := appendOne(t, s, "e"); err == nil || errors.Is(err, settle.ErrDuplicateEvent) || !strings.Contains(err.Error(), "setval") {
		t.Errorf("with a sequence that was set back it says %v", err)
	}
	if got := len(pollTest(t, s.Log(), relay.PollQuery{}).Rows); got != 4 {
		t.Errorf("%d events are there, want 4", got)
	}
}

func TestWhatDependsOnTheTableKeepsItFromBeingDivided(t *testing.T) {
	for what, plants := range map[string]string{
		"view mine":       "CREATE VIEW mine AS SELECT id FROM t_outbox_event",
		"trigger mine":    "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'; CREATE TRIGGER mine AFTER INSERT ON t_outbox_event EXECUTE FUNCTION f()",
		"foreign key":     "CREATE TABLE mine (id bigint REFERENCES t_outbox_event)",
		"sequence is at ": `INSERT INTO t_outbox_event (id, event_id, event_type, aggregate_id, payload) VALUES (1000000000, 'far', 'x', 'k', '')`,
	} {
		at := DatabaseForTest(t) + "&synchronous_commit=off"
		s := OpenForTest(t, at, Config{})
		plant(t, s, plants)
		if steps, err := changePartitions(t, at, 10); !errors.Is(err, migrate.ErrNotDivided) || !strings.Contains(err.Error(), what) {
			t.Errorf("beside a %s: %d steps, %v", what, len(steps), err)
		}
		if n, err := partitionWidth(t, at); err != nil || n != 0 {
			t.Errorf("it was divided all the same: %d, %v", n, err)
		}
	}
}

func partitionWidth(t *testing.T, at string) (int64, error) {
	t.Helper()
	s, err := Schema(t.Context(), at, false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	return s.PartitionWidth(t.Context())
}

func TestTheSearchIndexesOfPartitionsComeAndGo(t *testing.T) {
	at := DatabaseForTest(t) + "&synchronous_commit=off"
	PartitionForTest(t, at, 5)
	s := OpenForTest(t, at, Config{})
	for i := range 12 {
		plant(t, s, insertOf(fmt.Sprint("e", i)))
	}
	// A build that was stopped leaves one that is not whole.
	for _, stopped := range []string{"", "CREATE INDEX i_outbox_biz ON ONLY t_outbox_event (biz_key) WHERE biz_key IS NOT NULL; CREATE INDEX t_outbox_event_until_5_i_outbox_biz ON t_outbox_event_until_5 (biz_key)"} {
		changeLayout(t, at, migrate.LayoutLean)
		if stopped != "" {
			plant(t, s, stopped)
		}
		changeLayout(t, at, migrate.LayoutFull)
		if f := diagnose(t, at, DoctorConfig{})["indexes"]; f.Verdict != "ok" {
			t.Errorf("%+v", f)
		}
		if lean, err := s.Governance().Unsearched(t.Context()); err != nil || lean {
			t.Errorf("unsearched is %v, %v", lean, err)
		}
	}
}
