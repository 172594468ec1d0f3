package postgres_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/postgres"
)

func (c *classic) findings() map[string]doctor.Finding {
	c.t.Helper()
	all, err := postgres.NewDoctor(c.at, postgres.DoctorConfig{}).Check(context.Background())
	if err != nil {
		c.t.Fatal(err)
	}
	found := map[string]doctor.Finding{}
	for _, f := range all {
		found[f.Check] = f
	}
	return found
}

func TestDoctorLooksAtAnAdoptedTableInThePlaceOfOurOwn(t *testing.T) {
	c := newClassic(t, classicTable)
	c.insert(1, 3, "SENT")
	c.insert(4, 6, "PENDING")
	c.adopt(migrate.AdoptConfig{})
	r := c.relay(newMemory(t), relay.Config{})
	r.sends(3)
	c.becomes("SENT 6")
	for _, name := range []string{"schema", "tables", "indexes", "triggers", "outbox_id", "pooled_ids", "sequence", "generation", "never_sent", "time_zone", "adoption", "set_back", "old_relay", "relay"} {
		if f, ok := c.findings()[name]; !ok || f.Verdict != doctor.OK {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if f := c.findings()["adoption"]; !strings.Contains(f.Found, c.table()) {
		t.Errorf("the table is called %q", f.Found)
	}
	for name, plant := range map[string]string{
		"payload":    `SELECT 1`, // jsonb
		"adoption":   `ALTER TABLE t_outbox_event ALTER COLUMN last_error TYPE VARCHAR(80)`,
		"pooled_ids": `INSERT INTO t_outbox_event (id, event_id, aggregate_type, aggregate_id, event_type, payload, status) SELECT g * 50 + k, 'p-' || g || '-' || k, 'x', 'x', 'x', '{}', 'SENT' FROM generate_series(10, 30) g, generate_series(0, 3) k`,
		"indexes":    `DROP INDEX idx_outbox_status_retry`,

		"unlogged_tables": `ALTER TABLE t_outbox_event SET UNLOGGED`,
	} {
		c.exec(plant)
		if f := c.findings()[name]; f.Verdict == doctor.OK || f.Fix == "" {
			t.Errorf("%s: %+v", name, f)
		}
	}
	// Those of the plant were sent by nobody that we know.
	eventually(t, "the other relay is reported", func() (string, bool) {
		f := c.findings()["old_relay"]
		return fmt.Sprint(f), f.Verdict == doctor.Bad && strings.Contains(f.Found, "were sent or taken by another")
	})
}

func TestAColumnOfAnAdoptedTableThatWasWidenedIsAWarningAndOneThatWasNarrowedIsBad(t *testing.T) {
	c := newClassic(t, classicTable)
	c.adopt(migrate.AdoptConfig{})
	for _, change := range []struct {
		typed string
		want  doctor.Verdict
	}{{"event_id TYPE VARCHAR(128)", doctor.Warn}, {"event_id TYPE TEXT", doctor.Warn}, {"event_id TYPE VARCHAR(64)", doctor.OK}, {"status TYPE VARCHAR(8)", doctor.Bad}} {
		c.exec(`ALTER TABLE t_outbox_event ALTER COLUMN ` + change.typed)
		if f := c.findings()["adoption"]; f.Verdict != change.want {
			t.Errorf("%s: %+v", change.typed, f)
		}
	}
}
