package mysql

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/doctor/doctortest"
	"github.com/settlemq/settle/relay"
)

func diagnose(t *testing.T, at string, cfg DoctorConfig) map[string]doctor.Finding {
	t.Helper()
	return doctortest.Diagnose(t, NewDoctor(at, cfg))
}

// ofTheServer are checks of settings that the tests' server may have otherwise,
// and of others' doings on it.
func ofTheServer() []string {
	return []string{"innodb_flush_log_at_trx_commit", "sync_binlog", "innodb_doublewrite", "replicas", "cluster", "sql_mode", "max_allowed_packet", "wait_timeout",
		"group_concat", "time_zone", "process_right", "open_transactions", "history", "connections"}
}

// relayedForTest makes a database in which events were sent and a relay has
// given its lease back: ids 1 to 3, and 10, which leaves cold ones.
func relayedForTest(t *testing.T) (at string, s *Store) {
	t.Helper()
	at = DatabaseForTest(t)
	s = OpenForTest(t, at, Config{})
	for _, id := range []int{1, 2, 3, 10} {
		s.plant(t, fmt.Sprintf(`INSERT INTO t_outbox_event (id, event_id, event_type, aggregate_id, payload) VALUES (%d, 'e%[1]d', 'x', 'k', '{}')`, id))
	}
	l := s.Log()
	lease, err := l.Lead(t.Context(), "me", 0, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
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

func TestADoctorFindsNothingInASoundDatabase(t *testing.T) {
	at, _ := relayedForTest(t)
	for name, f := range diagnose(t, at, DoctorConfig{}) {
		if f.Verdict != doctor.OK && !slices.Contains(ofTheServer(), name) {
			t.Errorf("%+v", f)
		}
	}
}

func TestADoctorFindsWhatIsWrongAndItsSQLMendsIt(t *testing.T) {
	for _, c := range []struct {
		name, spoil, check, found string
	}{
		{"a table is missing", "DROP TABLE t_consume_seq", "tables", "table t_consume_seq is missing"},
		{"a column is missing", "ALTER TABLE t_dead_letter DROP COLUMN acted_by", "tables", "column t_dead_letter.acted_by is missing"},
		{"a column was narrowed", "ALTER TABLE t_dead_letter MODIFY COLUMN acted_by VARCHAR(20) CHARACTER SET utf8mb4 COLLATE settle_exact NOT NULL DEFAULT ''", "tables", "is varchar(20), want varchar(191)"},
		{"a view is missing", "DROP VIEW v_outbox_sent", "tables", "view v_outbox_sent is missing"},
		{"an index is missing", "ALTER TABLE t_outbox_event DROP INDEX u_outbox_event", "indexes", "index u_outbox_event of t_outbox_event is missing"},
		{"keys lose their case", "ALTER TABLE t_outbox_parked MODIFY COLUMN aggregate_id VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL", "collations", "t_outbox_parked.aggregate_id is utf8mb4_general_ci"},
		{"keys lose trailing space", "ALTER TABLE t_consume_retry MODIFY COLUMN event_id VARCHAR(191) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL", "collations", "t_consume_retry.event_id is utf8mb4_bin"},
		{"a table of the business is not InnoDB's", "CREATE TABLE t_stock (id INT) ENGINE = MyISAM", "engines", "t_stock is MyISAM"},
		{"ids are not given by the table", "ALTER TABLE t_outbox_event MODIFY COLUMN id BIGINT NOT NULL", "outbox_id", "not AUTO_INCREMENT"},
		{"a row was slipped in", "INSERT INTO t_outbox_event (id, event_id, event_type, aggregate_id, payload) VALUES (7, 'e7', 'x', 'k', '{}')", "never_sent", "1 of 5 were never acknowledged: e7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			at, s := relayedForTest(t)
			s.plant(t, strings.ReplaceAll(c.spoil, "settle_exact", s.server.exact))
			f := diagnose(t, at, DoctorConfig{})[c.check]
			if f.Verdict == doctor.OK || !strings.Contains(f.Found, c.found) {
				t.Fatalf("%+v; want %s", f, c.found)
			}
			for fix := range strings.SplitSeq(f.Fix, "; ") {
				s.plant(t, fix)
			}
			if f := diagnose(t, at, DoctorConfig{})[c.check]; f.Verdict != doctor.OK {
				t.Errorf("after its own SQL: %+v", f)
			}
		})
	}
}

func TestADoctorFindsATableOfAnotherLife(t *testing.T) {
	at, s := relayedForTest(t)
	s.plant(t, `UPDATE t_outbox_event SET event_id = 'other' WHERE id = 10`)
	if f := diagnose(t, at, DoctorConfig{})["generation"]; f.Verdict != doctor.Bad || !strings.Contains(f.Found, "there is other now") {
		t.Errorf("%+v", f)
	}
	s.plant(t, `TRUNCATE t_outbox_event`)
	if f := diagnose(t, at, DoctorConfig{})["generation"]; f.Verdict != doctor.Bad || !strings.Contains(f.Found, "no more than 0") {
		t.Errorf("%+v", f)
	}
}

func TestADoctorOfAForeignDatabaseAsksForMigration(t *testing.T) {
	by := diagnose(t, DatabaseForTest(t), DoctorConfig{})
	if f := by["schema"]; f.Verdict != doctor.Bad || !strings.Contains(f.Fix, "settle migrate") {
		t.Errorf("%+v", f)
	}
}

func TestADoctorSeesOldTransactionsAndAClockThatIsWrong(t *testing.T) {
	at := DatabaseForTest(t)
	s := OpenForTest(t, at, Config{})
	tx, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), `INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload) VALUES ('e', 'x', 'k', '{}')`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for cfg := (DoctorConfig{Stale: time.Second, Clock: func() time.Time { return time.Now().Add(-2 * time.Minute) }}); ; <-tick.C {
		by := diagnose(t, at, cfg)
		if f := by["clock_skew"]; f.Verdict != doctor.Bad || !strings.Contains(f.Found, "ahead of") {
			t.Fatalf("%+v", f)
		}
		f := by["open_transactions"]
		if f.Verdict == doctor.Warn && strings.HasPrefix(f.Fix, "KILL ") {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("an open transaction is not seen: %+v", f)
		}
	}
}
