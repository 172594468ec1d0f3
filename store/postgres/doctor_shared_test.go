package postgres_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/store/postgres"
)

// ofTheSharedLog are the checks of a shared consume log.
func ofTheSharedLog() []string {
	return []string{"shared_log", "shared_log_rights", "shared_log_zone", "shared_log_stuck"}
}

func TestDoctorFindsNothingInASharedConsumeLogThatBothKindsOfConsumersUse(t *testing.T) {
	t.Parallel()
	c := newSharedLog(t, "Asia/Shanghai")
	c.exec(`SET TIME ZONE 'Asia/Shanghai'`)
	s := postgres.OpenForTest(t, c.at, postgres.Config{})
	c.exec(`INSERT INTO t_message_consume_log (consumer_group, message_id, status) VALUES ('g', 'done', 'SUCCESS'), ('g', 'begun', 'PROCESSING')`)
	old := sharedItem("done", "k")
	old.Record.Event.AppendedAt = time.Now().Add(-time.Second)
	kept := sharedItem("kept", "l")
	kept.Record.Event.AppendedAt = time.Now().Add(-2 * time.Hour)
	kept.Intent, kept.Class, kept.NextAt = settle.IntentPark, settle.ClassHandler, time.Now().Add(time.Hour)
	c.apply(s, old, kept, sharedItem("ours", "m"))
	// What Settle itself keeps waiting may do so for long.
	c.exec(`UPDATE t_message_consume_log SET consumed_at = CURRENT_TIMESTAMP - interval '1 hour' WHERE message_id = 'kept'`)
	all := c.findings()
	for _, name := range ofTheSharedLog() {
		if f, ok := all[name]; !ok || f.Verdict != doctor.OK {
			t.Errorf("%s: %+v", name, f)
		}
	}
	for name, f := range newClassic(t, classicTable).findings() {
		if strings.HasPrefix(name, "shared_log") {
			t.Errorf("where none is shared: %+v", f)
		}
	}
}

func TestDoctorFindsWhatWasPlantedInASharedConsumeLogAndSaysWhatMendsIt(t *testing.T) {
	for _, p := range []struct {
		check   string
		verdict doctor.Verdict
		plant   string
		found   string
		// mended: the fix is SQL, and with it nothing is found any more.
		mended bool
	}{
		{"shared_log", doctor.Bad, `DROP TABLE t_message_consume_log`, "is gone", false},
		{"shared_log", doctor.Bad, `ALTER TABLE t_message_consume_log DROP COLUMN biz_key`, "column biz_key is missing", true},
		{"shared_log", doctor.Bad, `ALTER TABLE t_message_consume_log ALTER COLUMN consumed_at TYPE timestamptz`, "column consumed_at was timestamp without time zone", false},
		{"shared_log", doctor.Bad, `ALTER TABLE t_message_consume_log ALTER COLUMN status TYPE VARCHAR(8) USING left(status, 8)`, "is character varying(8)", false},
		{"shared_log", doctor.Warn, `ALTER TABLE t_message_consume_log ALTER COLUMN message_id TYPE VARCHAR(128)`, "is character varying(128)", false},
		{"shared_log", doctor.Bad, `ALTER TABLE t_message_consume_log ADD COLUMN tenant text; ALTER TABLE t_message_consume_log ALTER COLUMN tenant SET NOT NULL`, "column tenant must have a value", true},
		{"shared_log", doctor.Bad, `ALTER TABLE t_message_consume_log DROP CONSTRAINT t_message_consume_log_consumer_group_message_id_key`, "no unique index", true},
		{"shared_log", doctor.Bad, `INSERT INTO t_message_consume_log (consumer_group, message_id, status) VALUES ('g', 'e', 'HELD')`, `status "HELD" of 1 rows has no meaning`, false},
		{"shared_log_zone", doctor.Bad, `INSERT INTO t_message_consume_log (consumer_group, message_id, status, consumed_at) VALUES ('g', 'e', 'SUCCESS', now() AT TIME ZONE 'Asia/Shanghai')`, "ahead of the clock", false},
		{"shared_log_stuck", doctor.Warn, `INSERT INTO t_message_consume_log (consumer_group, message_id, status, consumed_at) VALUES ('g', 'e', 'PROCESSING', now() AT TIME ZONE 'UTC' - interval '16 min'), ('g', 'f', 'FAILED', now() AT TIME ZONE 'UTC' - interval '14 min')`, "1 messages of group g were begun by foreign consumers more than 15m0s ago and not ended, the first, e,", false},
	} {
		t.Run(p.check+" "+p.found, func(t *testing.T) {
			t.Parallel()
			c := newSharedLog(t, "UTC")
			c.exec(p.plant)
			f := c.findings()[p.check]
			if f.Verdict != p.verdict || !strings.Contains(f.Found, p.found) || f.Fix == "" || f.Why == "" {
				t.Errorf("found %+v", f)
			}
			if !p.mended {
				return
			}
			c.exec(f.Fix)
			if f := c.findings()[p.check]; f.Verdict != doctor.OK {
				t.Errorf("after the fix: %+v", f)
			}
		})
	}
}

// A row that seems older than its event was written further west.
func TestDoctorNoticesByTheEventsThemselvesThatASharedConsumeLogIsReadInAZoneTooFarEast(t *testing.T) {
	t.Parallel()
	c := newSharedLog(t, "Asia/Shanghai")
	s := postgres.OpenForTest(t, c.at, postgres.Config{})
	c.exec(`INSERT INTO t_message_consume_log (consumer_group, message_id, status, consumed_at) VALUES ('g', 'e', 'SUCCESS', now() AT TIME ZONE 'UTC')`)
	if f := c.findings()["shared_log_zone"]; f.Verdict != doctor.OK {
		t.Errorf("while nothing shows it: %+v", f)
	}
	if got := c.apply(s, sharedItem("e", "k")); got[0] != settle.VerdictDuplicate {
		t.Fatalf("what was done is %v", got)
	}
	if f := c.findings()["shared_log_zone"]; f.Verdict != doctor.Bad || !strings.Contains(f.Found, "before its event was stored") || !strings.Contains(f.Fix, "--zone") {
		t.Errorf("found %+v", f)
	}
}

func TestDoctorNamesTheRightsOnASharedConsumeLogThatARoleLacks(t *testing.T) {
	t.Parallel()
	c := newSharedLog(t, "UTC")
	role := "test_" + strings.ReplaceAll(settle.NewID(), "-", "")
	c.exec("CREATE ROLE " + role + " LOGIN PASSWORD '" + role + "'")
	t.Cleanup(func() { c.endRole(role) })
	own := schemaOf(t, c.at)
	c.exec("GRANT USAGE ON SCHEMA " + own + " TO " + role + "; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA " + own + " TO " + role)
	c.at = as(t, c.at, role)
	for range 4 {
		f := c.findings()["shared_log_rights"]
		if f.Verdict == doctor.OK {
			c.consumes()
			return
		}
		if f.Verdict != doctor.Bad || !strings.Contains(f.Found, role) {
			t.Fatalf("found %+v", f)
		}
		c.exec(f.Fix)
	}
	t.Error("what it names never suffices")
}

// consumes shows that a consumer has all that it needs.
func (c *classic) consumes() {
	c.t.Helper()
	c.exec("GRANT INSERT ON t_effect TO PUBLIC")
	s := postgres.OpenForTest(c.t, c.at, postgres.Config{Existing: true})
	if got := c.apply(s, sharedItem("e", "k")); got[0] != settle.VerdictApplied {
		c.t.Errorf("a consumer with these rights has %v", got)
	}
}

// endRole drops a role with a connection of its own: the test's may have ended.
func (c *classic) endRole(role string) {
	conn, err := pgx.ConnectConfig(context.Background(), c.conn.Config())
	if err != nil {
		c.t.Error(err)
		return
	}
	defer conn.Close(context.Background())
	if _, err := conn.PgConn().Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role).ReadAll(); err != nil {
		c.t.Error(err)
	}
}
