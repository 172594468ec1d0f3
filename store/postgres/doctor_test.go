package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/doctor/doctortest"
	"github.com/settlemq/settle/relay"
)

func diagnose(t *testing.T, at string, cfg DoctorConfig) map[string]doctor.Finding {
	t.Helper()
	return doctortest.Diagnose(t, NewDoctor(at, cfg))
}

// execute runs statements by the simple protocol, as a person's client does.
func execute(t *testing.T, at, statements string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.PgConn().Exec(ctx, statements).ReadAll(); err != nil {
		t.Fatalf("%s: %v", statements, err)
	}
}

// relayed makes a schema in which events were sent and a relay has given its
// lease back: ids 1 to 3, and 10, which leaves cold ones.
func relayed(t *testing.T) (at string, s *Store) {
	t.Helper()
	at = DatabaseForTest(t)
	s = OpenForTest(t, at, Config{})
	for _, id := range []int{1, 2, 3, 10} {
		execute(t, at, fmt.Sprintf(`INSERT INTO t_outbox_event (id, event_id, event_type, aggregate_id, payload) VALUES (%d, 'e%[1]d', 'x', 'k', '{}')`, id))
	}
	execute(t, at, "SELECT setval('t_outbox_event_id_seq', 10)")
	l := s.Log()
	lease := leadTest(t, l)
	f := relay.Flush{Checkpoint: relay.Checkpoint{Number: 1, Readers: []relay.Reader{{Cursor: 10, CursorEvent: "e10"}}}, Cold: []int64{4, 5, 6}}
	for i, id := range []int64{1, 2, 3, 10} {
		f.Sent = append(f.Sent, relay.Sent{ID: id, EventID: fmt.Sprint("e", id), Destination: settle.DefaultTopic, At: settle.Coordinates{Topic: settle.DefaultTopic, Offset: int64(i)}, SentAt: time.Now()})
	}
	if err := l.Commit(t.Context(), lease, f); err != nil {
		t.Fatal(err)
	}
	if err := l.Resign(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	return at, s
}

// others' doings on a server that is shared with them.
func ofTheServer() []string { return []string{"open_transactions", "replication_slots", "connections"} }

func TestADoctorFindsNothingInASoundDatabase(t *testing.T) {
	at, _ := relayed(t)
	for name, f := range diagnose(t, at, DoctorConfig{}) {
		if f.Verdict != doctor.OK && !slices.Contains(ofTheServer(), name) {
			t.Errorf("%+v", f)
		}
	}
}

// classicOutbox replaces our table by the well-known one.
const classicOutbox = `DROP TABLE t_outbox_event CASCADE;
CREATE TABLE t_outbox_event (id BIGSERIAL PRIMARY KEY, event_id VARCHAR(64) NOT NULL UNIQUE, aggregate_type VARCHAR(64) NOT NULL, aggregate_id VARCHAR(64) NOT NULL,
 event_type VARCHAR(64) NOT NULL, payload JSONB NOT NULL, headers JSONB, status VARCHAR(16) NOT NULL, retry_count INT NOT NULL DEFAULT 0,
 next_retry_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, last_error TEXT, created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE INDEX idx_outbox_status_retry ON t_outbox_event (status, next_retry_time, id);`

func TestADoctorFindsWhatWasPlantedAndSaysWhatMendsIt(t *testing.T) {
	const insert = `INSERT INTO t_outbox_event (id, event_id, event_type, aggregate_id, payload) SELECT `
	for _, c := range []struct {
		check   string
		verdict doctor.Verdict
		plant   string
		found   string
		// mended: the fix is SQL, and with it nothing is found any more.
		mended bool
	}{
		{"schema", doctor.Bad, "DELETE FROM settle_schema WHERE version_id > 1", "version 1", false},
		{"schema", doctor.Bad, "INSERT INTO settle_schema (version_id, is_applied) VALUES (999, true)", "version 999", false},
		{"schema", doctor.Bad, "DROP TABLE settle_schema", "no tables of Settle", false},
		{"tables", doctor.Bad, "DROP VIEW v_outbox_sent", "view v_outbox_sent is missing", true},
		{"tables", doctor.Bad, "DROP FUNCTION settle_outbox_table CASCADE", "function settle_outbox_table is missing", true},
		{"tables", doctor.Bad, "DROP TABLE t_outbox_delayed CASCADE", "table t_outbox_delayed is missing; view v_outbox_event is missing", true},
		{"tables", doctor.Bad, "ALTER TABLE t_outbox_gap DROP COLUMN recorded_at", "column t_outbox_gap.recorded_at is missing", true},
		{"tables", doctor.Bad, "ALTER TABLE t_consume_floor ALTER COLUMN forgotten_no DROP DEFAULT, ALTER COLUMN forgotten_no TYPE text", "column t_consume_floor.forgotten_no is text, want bigint", true},
		{"indexes", doctor.Bad, "DROP INDEX u_outbox_event", "index u_outbox_event is missing", true},
		{"indexes", doctor.Bad, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'i_outbox_biz'::regclass", "index i_outbox_biz is not complete", true},
		{"indexes", doctor.Bad, classicOutbox + "DROP INDEX idx_outbox_status_retry", "no index on status", true},
		{"triggers", doctor.Bad, "ALTER TABLE t_audit DISABLE TRIGGER audit_is_not_changed", "trigger audit_is_not_changed is switched off", true},
		{"triggers", doctor.Bad, "DROP TRIGGER skip_is_asked ON settle_skip", "trigger skip_is_asked is missing", true},
		{"autovacuum", doctor.Warn, "ALTER TABLE t_outbox_checkpoint SET (autovacuum_enabled = off)", "off for t_outbox_checkpoint", true},
		{"autovacuum", doctor.Warn, "ALTER TABLE t_outbox_gap SET (autovacuum_enabled = false); INSERT INTO t_outbox_gap SELECT i, i, now() FROM generate_series(1000, 120000) i; DELETE FROM t_outbox_gap WHERE first_id >= 1000; SELECT pg_stat_force_next_flush()", "dead rows", false},
		{"outbox_id", doctor.Bad, "ALTER SEQUENCE t_outbox_event_id_seq CACHE 20", "CACHE 20", true},
		{"outbox_id", doctor.Bad, "ALTER SEQUENCE t_outbox_event_id_seq INCREMENT -1 MINVALUE -100", "counts down", true},
		{"outbox_id", doctor.Warn, "ALTER TABLE t_outbox_event ALTER COLUMN id DROP IDENTITY", "no sequence that is known", true},
		{"outbox_id", doctor.Warn, "SELECT setval('t_outbox_event_id_seq', 9000000000000000000)", "is at 9000000000000000000", false},
		{"outbox_id", doctor.Bad, classicOutbox + "ALTER TABLE t_outbox_event DROP COLUMN id", "id of t_outbox_event", false},
		{"pooled_ids", doctor.Bad, "ALTER SEQUENCE t_outbox_event_id_seq INCREMENT 50; " + insert + "i, 'f' || i, 'x', 'k', '' FROM generate_series(20, 30) i", "blocks of 50", false},
		{"pooled_ids", doctor.Bad, insert + "b * 50 + i, 'f' || b || '-' || i, 'x', 'k', '' FROM generate_series(1, 9) b, generate_series(1, 7) i", "blocks of 50", false},
		{"sequence", doctor.Bad, insert + "500, 'f', 'x', 'k', ''", "the highest id is 500", true},
		{"payload", doctor.Warn, classicOutbox, "jsonb", false},
		{"payload", doctor.Warn, classicOutbox + "ALTER TABLE t_outbox_event ALTER COLUMN payload TYPE VARCHAR(4000)", "character varying(4000)", true},
		{"payload", doctor.Bad, classicOutbox + "ALTER TABLE t_outbox_event DROP COLUMN payload", "payload of t_outbox_event is", false},
		{"unlogged_tables", doctor.Bad, "ALTER TABLE t_outbox_event SET UNLOGGED; ALTER TABLE t_outbox_checkpoint SET UNLOGGED", "t_outbox_checkpoint; t_outbox_event", true},
		{"time_zone", doctor.Warn, classicOutbox, "next_retry_time, created_at of t_outbox_event have none", false},
		{"generation", doctor.Bad, "TRUNCATE t_outbox_event RESTART IDENTITY", "has read up to id 10", false},
		{"generation", doctor.Bad, "UPDATE t_outbox_event SET event_id = 'other' WHERE id = 10", "e10 at id 10, and there is other", false},
		{"never_sent", doctor.Bad, insert + "8, 'below', 'x', 'k', ''", "1 of 5 were never acknowledged: below", true},
		{"relay", doctor.Warn, "UPDATE t_outbox_lease SET clean = false", "me leads", false},
		{"relay", doctor.Warn, "UPDATE t_outbox_lease SET clean = false; DELETE FROM settle_renewal", "me ended without giving the lease back", false},
		{"relay", doctor.Warn, "UPDATE t_outbox_lease SET deaths = 3", "the 3 leaders before me died", false},
		{"old_relay", doctor.Bad, "UPDATE t_outbox_event SET version = 2; SELECT pg_stat_force_next_flush()", "rows of t_outbox_event were updated", false},
		{"old_relay", doctor.Bad, classicOutbox + "INSERT INTO t_outbox_event (id, event_id, aggregate_type, aggregate_id, event_type, payload, status) VALUES (11, 'a', '', 'k', 'x', '{}', 'SENT'), (12, 'b', '', 'k', 'x', '{}', 'PENDING')", "1 rows that Settle's relay has not read have left PENDING", false},
	} {
		t.Run(c.check+" "+c.found, func(t *testing.T) {
			t.Parallel()
			at, _ := relayed(t)
			execute(t, at, c.plant)
			f := diagnose(t, at, DoctorConfig{})[c.check]
			if c.found == "me leads" {
				if f.Verdict != doctor.OK || !strings.Contains(f.Found, c.found) {
					t.Errorf("a leader that lives: %+v", f)
				}
				return
			}
			if f.Verdict != c.verdict || !strings.Contains(f.Found, c.found) {
				t.Errorf("found %+v", f)
			}
			if !c.mended {
				return
			}
			execute(t, at, f.Fix)
			if f := diagnose(t, at, DoctorConfig{})[c.check]; f.Verdict != doctor.OK {
				t.Errorf("after the fix: %+v", f)
			}
		})
	}
}

// A row that a fix has listed is one that the relay sends.
func TestDurabilityIsAskedForAloneAndWithoutTables(t *testing.T) {
	for name, at := range map[string]string{"with tables": relayedURL(t), "without": DatabaseForTest(t)} {
		list, err := NewDoctor(at, DoctorConfig{}).Durability(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var checks []string
		for _, f := range list {
			checks = append(checks, f.Check)
			if f.Verdict != doctor.OK {
				t.Errorf("%s: found %+v", name, f)
			}
		}
		if want := []string{"synchronous_commit", "fsync", "full_page_writes", "unlogged_tables"}; !slices.Equal(checks, want) {
			t.Errorf("%s: looked at %q, want %q", name, checks, want)
		}
	}
}

func relayedURL(t *testing.T) string {
	t.Helper()
	at, _ := relayed(t)
	return at
}

func TestWhatMendsANeverSentRowMakesItWait(t *testing.T) {
	at, s := relayed(t)
	execute(t, at, `INSERT INTO t_outbox_event (id, event_id, event_type, aggregate_id, payload) VALUES (8, 'below', 'x', 'k', '{}')`)
	execute(t, at, diagnose(t, at, DoctorConfig{})["never_sent"].Fix)
	p, err := s.Log().Side(t.Context(), relay.SideQuery{Side: relay.SideExtra, MaxRows: 10, MaxBytes: 1 << 20})
	if err != nil || len(p.Rows) != 1 || p.Rows[0].ID != 8 {
		t.Errorf("to be sent: %+v, %v", p.Rows, err)
	}
}

func TestADoctorNamesTheSessionThatMayBeTheOtherRelay(t *testing.T) {
	at, _ := relayed(t)
	x := begin(t, at)
	x.do("UPDATE t_outbox_event SET version = version + 1")
	x.do("COMMIT")
	pid := fmt.Sprint("process ", x.conn.PgConn().PID(), " of ")
	var f doctor.Finding
	// The server counts updates a moment later.
	for until := time.Now().Add(20 * time.Second); f.Verdict != doctor.Bad && time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		x.do("SELECT pg_stat_force_next_flush()")
		x.do("UPDATE t_outbox_event SET version = version + 1")
		f = diagnose(t, at, DoctorConfig{})["old_relay"]
	}
	if f.Verdict != doctor.Bad || !strings.Contains(f.Found, pid) {
		t.Errorf("found %+v, want %s", f, pid)
	}
}

func TestADoctorNamesASchemaThatIsNotThere(t *testing.T) {
	at := DatabaseForTest(t)
	all := diagnose(t, at, DoctorConfig{})
	if f := all["schema"]; f.Verdict != doctor.Bad || !strings.Contains(f.Found, "there is no schema "+schemaOf(t, at)) {
		t.Errorf("found %+v", f)
	}
	for name, f := range all {
		if name != "schema" && f.Verdict != doctor.OK && !slices.Contains(ofTheServer(), name) {
			t.Errorf("where there is nothing: %+v", f)
		}
	}
}

func TestADoctorNamesOldTransactionsAndWhatEndsThem(t *testing.T) {
	at, _ := relayed(t)
	x := begin(t, at)
	x.do(insertOf("open"))
	y := begin(t, at)
	y.do(insertOf("prepared"))
	gid := "test-" + settle.NewID()
	y.do("PREPARE TRANSACTION '" + gid + "'")
	rollback := "ROLLBACK PREPARED '" + gid + "'"
	f := diagnose(t, at, DoctorConfig{Stale: time.Microsecond})["open_transactions"]
	end := fmt.Sprintf("SELECT pg_terminate_backend(%d)", x.conn.PgConn().PID())
	if f.Verdict != doctor.Warn || !strings.Contains(f.Fix, end) || !strings.Contains(f.Fix, rollback) || !strings.Contains(f.Found, "idle in transaction") {
		t.Errorf("found %+v", f)
	}
	execute(t, at, end)
	execute(t, at, rollback)
	f = diagnose(t, at, DoctorConfig{Stale: time.Microsecond})["open_transactions"]
	if strings.Contains(f.Fix, end) || strings.Contains(f.Fix, gid) {
		t.Errorf("when they have ended: %+v", f)
	}
}

func TestADoctorComparesTheClocks(t *testing.T) {
	at, _ := relayed(t)
	for by, want := range map[time.Duration]doctor.Verdict{3 * time.Second: doctor.Warn, -3 * time.Second: doctor.Warn, time.Hour: doctor.Bad, -time.Hour: doctor.Bad, 0: doctor.OK} {
		f := diagnose(t, at, DoctorConfig{Clock: func() time.Time { return time.Now().Add(by) }})["clock_skew"]
		side := "ahead of"
		if by > 0 {
			side = "behind"
		}
		if f.Verdict != want || want != doctor.OK && !strings.Contains(f.Found, side) {
			t.Errorf("by %s: %+v", by, f)
		}
	}
}
