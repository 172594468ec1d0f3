package postgres_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/storetest/adopted"
)

func TestDoctorFindsNothingInASharedConsumeLogThatBothKindsOfConsumersUse(t *testing.T) {
	t.Parallel()
	adopted.SoundLog(t, service)
}

func TestDoctorFindsWhatWasPlantedInASharedConsumeLogAndSaysWhatMendsIt(t *testing.T) {
	const alter = `ALTER TABLE t_message_consume_log `
	adopted.PlantedInLog(t, service, []adopted.Planted{
		{Check: "shared_log", Verdict: doctor.Bad, Plant: []string{alter + `ALTER COLUMN consumed_at TYPE timestamptz`}, Found: "column consumed_at was timestamp without time zone"},
		{Check: "shared_log", Verdict: doctor.Bad, Plant: []string{alter + `ALTER COLUMN status TYPE VARCHAR(8) USING left(status, 8)`}, Found: "is character varying(8)"},
		{Check: "shared_log", Verdict: doctor.Warn, Plant: []string{alter + `ALTER COLUMN message_id TYPE VARCHAR(128)`}, Found: "is character varying(128)"},
		{Check: "shared_log", Verdict: doctor.Bad, Plant: []string{alter + `ADD COLUMN tenant text`, alter + `ALTER COLUMN tenant SET NOT NULL`}, Found: "column tenant must have a value", Mended: true},
		{Check: "shared_log", Verdict: doctor.Bad, Plant: []string{alter + `DROP CONSTRAINT t_message_consume_log_consumer_group_message_id_key`}, Found: "no unique index", Mended: true},
	})
}

func TestDoctorNoticesByTheEventsThemselvesThatASharedConsumeLogIsReadInAZoneTooFarEast(t *testing.T) {
	t.Parallel()
	adopted.TooFarEast(t, service)
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
