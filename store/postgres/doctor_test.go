package postgres

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/relay"
)

func diagnose(t *testing.T, at string, cfg DoctorConfig) map[string]doctor.Finding {
	t.Helper()
	list, err := NewDoctor(at, cfg).Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]doctor.Finding{}
	for _, f := range list {
		if f.Check == "" || f.Found == "" || f.Why == "" || f.Verdict != doctor.OK && f.Fix == "" {
			t.Errorf("a finding is not complete: %+v", f)
		}
		by[f.Check] = f
	}
	if len(by) != len(list) {
		t.Errorf("%d findings have %d names", len(list), len(by))
	}
	return by
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
		{"tables", doctor.Bad, "DROP TABLE t_outbox_delayed CASCADE", "table t_outbox_delayed is missing; view v_outbox_event is missing", true},
		{"tables", doctor.Bad, "ALTER TABLE t_outbox_gap DROP COLUMN recorded_at", "column t_outbox_gap.recorded_at is missing", false},
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
		{"time_zone", doctor.Warn, classicOutbox, "next_retry_time, created_at of t_outbox_event have none", false},
		{"generation", doctor.Bad, "TRUNCATE t_outbox_event RESTART IDENTITY", "has read up to id 10", false},
		{"generation", doctor.Bad, "UPDATE t_outbox_event SET event_id = 'other' WHERE id = 10", "e10 at id 10, and there is other", false},
		{"never_sent", doctor.Bad, insert + "8, 'below', 'x', 'k', ''", "1 of 5, because a program has chosen their ids itself: below", true},
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

// role makes a role that is dropped when the test ends, and returns its URL.
func role(t *testing.T, at, options string) (name, url string) {
	t.Helper()
	name = "test_" + strings.ReplaceAll(settle.NewID(), "-", "")
	execute(t, at, "CREATE ROLE "+name+" LOGIN PASSWORD 'canary' "+options)
	t.Cleanup(func() { execute(t, os.Getenv("SETTLE_TEST_POSTGRES"), "DROP OWNED BY "+name+"; DROP ROLE "+name) })
	return name, as(t, at, name, "canary")
}

func as(t *testing.T, at, user, password string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}

func TestADoctorNamesTheRightsThatARoleLacks(t *testing.T) {
	at, _ := relayed(t)
	name, asRole := role(t, at, "")
	f := diagnose(t, asRole, DoctorConfig{})["schema"]
	if f.Verdict != doctor.Bad || !strings.Contains(f.Found, name+" may not use schema") {
		t.Fatalf("found %+v", f)
	}
	execute(t, at, f.Fix)
	all := diagnose(t, asRole, DoctorConfig{})
	f = all["privileges"]
	if f.Verdict != doctor.Bad || !strings.Contains(f.Fix, "GRANT SELECT ON settle_schema, v_outbox_event") || !strings.Contains(f.Fix, "GRANT SELECT, INSERT ON t_audit TO") {
		t.Fatalf("found %+v", f)
	}
	if f := all["schema"]; f.Verdict != doctor.Warn || !strings.Contains(f.Found, "can't be looked at") {
		t.Errorf("a version that may not be read: %+v", f)
	}
	execute(t, at, f.Fix)
	execute(t, at, "REVOKE DELETE ON t_outbox_extra FROM "+name)
	f = diagnose(t, asRole, DoctorConfig{})["privileges"]
	if f.Verdict != doctor.Bad || f.Fix != "GRANT DELETE ON t_outbox_extra TO "+name {
		t.Errorf("found %+v", f)
	}
	execute(t, at, f.Fix)
	all = diagnose(t, asRole, DoctorConfig{})
	for name, f := range all {
		if f.Verdict != doctor.OK && !slices.Contains(ofTheServer(), name) {
			t.Errorf("a role that has its rights: %+v", f)
		}
	}
	if f := all["old_relay"]; !strings.Contains(f.Found, "sessions of other roles are hidden from "+name+": GRANT pg_monitor TO "+name) {
		t.Errorf("it does not say what it can't see: %+v", f)
	}
}

func TestADoctorFindsASettingWhereItComesFrom(t *testing.T) {
	at, _ := relayed(t)
	name, asRole := role(t, at, "")
	execute(t, at, "GRANT USAGE ON SCHEMA "+schemaOf(t, at)+" TO "+name)
	for _, c := range []struct {
		check   string
		verdict doctor.Verdict
		setting string
	}{
		{"synchronous_commit", doctor.Bad, "synchronous_commit = off"},
		{"isolation", doctor.Warn, "default_transaction_isolation = 'repeatable read'"},
		{"writable", doctor.Bad, "default_transaction_read_only = on"},
	} {
		for _, where := range []string{"", " IN DATABASE postgres"} {
			execute(t, at, "ALTER ROLE "+name+where+" SET "+c.setting)
			f := diagnose(t, asRole, DoctorConfig{})[c.check]
			if f.Verdict != c.verdict {
				t.Errorf("%s: %+v", c.setting, f)
			}
			if f := diagnose(t, at, DoctorConfig{})["synchronous_commit"]; c.check == f.Check && (f.Verdict != doctor.Warn || !strings.Contains(f.Found, "off for "+name)) {
				t.Errorf("of another role: %+v", f)
			}
			execute(t, at, f.Fix)
			if f := diagnose(t, asRole, DoctorConfig{})[c.check]; f.Verdict != doctor.OK {
				t.Errorf("after %s: %+v", c.setting, f)
			}
		}
	}
	execute(t, at, "ALTER ROLE "+name+" CONNECTION LIMIT 5")
	f := diagnose(t, asRole, DoctorConfig{})["connections"]
	if f.Verdict != doctor.Bad || !strings.Contains(f.Found, "role "+name+" allows 5") {
		t.Errorf("found %+v", f)
	}
	execute(t, at, f.Fix)
	if f := diagnose(t, asRole, DoctorConfig{})["connections"]; strings.Contains(f.Found, name) {
		t.Errorf("after the fix: %+v", f)
	}
}

func schemaOf(t *testing.T, at string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query().Get("search_path")
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

func TestWhoCanNotConnectIsToldWhichWordIsWrongAndWhatMendsIt(t *testing.T) {
	at := DatabaseForTest(t)
	name, asRole := role(t, at, "")
	u, err := url.Parse(asRole)
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(u *url.URL)) string {
		other := *u
		change(&other)
		return other.String()
	}
	for _, c := range []struct{ at, cause, fix string }{
		{as(t, at, name, "canary-wrong"), "password authentication failed", "ALTER ROLE " + name + " PASSWORD"},
		{as(t, at, "test_nobody", "canary"), "password authentication failed", "put the right password"},
		{with(func(u *url.URL) { u.Path = "/canary_none" }), `"canary_none" does not exist`, "CREATE DATABASE canary_none OWNER " + name},
		{with(func(u *url.URL) { u.Host = "127.0.0.1:1" }), "nothing listens there", "start the server"},
		{with(func(u *url.URL) { u.Host = "host.invalid:5432" }), "can't be resolved", "the right host"},
		{with(func(u *url.URL) { u.RawQuery = "sslmode=require" }), "refused TLS", "sslmode"},
		{"postgres://a:canary@127.0.0.1:x/d", "can't be read", "postgres://user:password@host"},
	} {
		_, err := NewDoctor(c.at, DoctorConfig{}).Check(t.Context())
		if err == nil || !strings.Contains(err.Error(), c.cause) || !strings.Contains(err.Error(), c.fix) {
			t.Errorf("says %v; want %s, %s", err, c.cause, c.fix)
			continue
		}
		if said := strings.ReplaceAll(err.Error(), "canary_none", ""); strings.Contains(said, "canary") || strings.Contains(said, "\n") {
			t.Errorf("shows a password, or is no sentence: %v", err)
		}
	}
	execute(t, at, "ALTER ROLE "+name+" NOLOGIN")
	if _, err := NewDoctor(asRole, DoctorConfig{}).Check(t.Context()); err == nil || !strings.Contains(err.Error(), "ALTER ROLE "+name+" LOGIN") {
		t.Errorf("a role that may not log in: %v", err)
	}
}

// What the migrations are read as is what the server makes of them.
func TestTheMigrationsAreReadAsTheServerReadsThem(t *testing.T) {
	at := DatabaseForTest(t)
	s := OpenForTest(t, at, Config{})
	want, err := wantedThings()
	if err != nil {
		t.Fatal(err)
	}
	var read, made []string
	for _, w := range want {
		if w.kind != wantView {
			read = append(read, strings.Join([]string{w.kind, w.table, w.name, w.typed}, " "))
		}
	}
	rows, err := s.own.Query(t.Context(), `SELECT 'table ' || relname || ' ' || relname || ' ' FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' AND relname <> 'settle_schema'
UNION ALL SELECT 'column ' || c.relname || ' ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND attnum > 0 AND NOT attisdropped
 WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' AND c.relname <> 'settle_schema'
UNION ALL SELECT 'index ' || tablename || ' ' || indexname || ' ' FROM pg_indexes WHERE schemaname = current_schema() AND indexname NOT LIKE '%\_pkey'
UNION ALL SELECT 'trigger ' || c.relname || ' ' || t.tgname || ' ' FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE NOT t.tgisinternal AND c.relnamespace = current_schema()::regnamespace`)
	if err != nil {
		t.Fatal(err)
	}
	if made, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		t.Fatal(err)
	}
	slices.Sort(read)
	slices.Sort(made)
	if !slices.Equal(read, made) {
		t.Errorf("read\n%s\nmade\n%s", strings.Join(read, "\n"), strings.Join(made, "\n"))
	}
}

func TestBlocksOfIDsAreToldFromGaps(t *testing.T) {
	list := func(f func(add func(int64))) (ids []int64) {
		f(func(id int64) { ids = append(ids, id) })
		slices.Sort(ids)
		return slices.Compact(ids)
	}
	for _, c := range []struct {
		name             string
		ids              []int64
		increment, start int64
		want             int64
	}{
		{"none", nil, 1, 1, 1},
		{"one by one", list(func(add func(int64)) {
			for i := range int64(100) {
				add(i)
			}
		}), 1, 1, 1},
		{"every fourth rolled back", list(func(add func(int64)) {
			for i := range int64(400) {
				if i*i%7 != 0 {
					add(i)
				}
			}
		}), 1, 1, 1},
		{"a sequence that steps", []int64{1, 11, 21, 41}, 10, 1, 1},
		{"ids between the steps", []int64{1, 11, 12, 41}, 10, 1, 10},
		{"every tenth, without its step", []int64{10, 20, 30, 40, 50, 60, 70, 80}, 1, 1, 1},
		{"few jumps", []int64{1, 51, 52, 101}, 1, 1, 1},
		{"blocks of 50", list(func(add func(int64)) {
			for b := range int64(8) {
				for i := range b + 2 {
					add(b*50 + i)
				}
			}
		}), 1, 1, 50},
	} {
		if got := blockSize(c.ids, c.increment, c.start); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
