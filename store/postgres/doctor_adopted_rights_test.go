package postgres_test

import (
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
)

func TestDoctorNamesTheRightsOnAnAdoptedTableThatARelayLacks(t *testing.T) {
	t.Parallel()
	c := newClassic(t, classicTable)
	c.adopt(migrate.AdoptConfig{})
	role := "test_" + strings.ReplaceAll(settle.NewID(), "-", "")
	c.exec("CREATE ROLE " + role + " LOGIN PASSWORD '" + role + "'")
	t.Cleanup(func() { c.endRole(role) })
	own := schemaOf(t, c.at)
	c.exec("GRANT USAGE ON SCHEMA " + own + " TO " + role + "; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA " + own + " TO " + role)
	c.at = as(t, c.at, role)
	c.exec("REVOKE SELECT ON " + own + ".settle_adoption FROM " + role)
	f := c.findings()["privileges"]
	if f.Verdict != doctor.Bad || !strings.Contains(f.Fix, "GRANT SELECT ON settle_adoption TO "+role) {
		t.Fatalf("of what was decided: %+v", f)
	}
	c.exec("GRANT SELECT ON " + own + ".settle_adoption TO " + role)
	if f := c.findings()["adoption"]; f.Verdict != doctor.Bad || !strings.Contains(f.Found, "can't be looked at") {
		t.Errorf("of a schema that may not be entered: %+v", f)
	}
	var named string
	for range 4 {
		f := c.findings()["privileges"]
		if f.Verdict == doctor.OK {
			break
		}
		named += f.Found + "; "
		c.exec(f.Fix)
	}
	for _, want := range []string{"USAGE on SCHEMA " + c.schema, "SELECT on " + c.table(), "UPDATE on " + c.table(), "SELECT on sequence " + c.schema + ".t_outbox_event_id_seq"} {
		if !strings.Contains(named, want) {
			t.Errorf("it does not name %s: %s", want, named)
		}
	}
	r := c.relay(newMemory(t), relay.Config{})
	c.insert(1, 3, "PENDING")
	r.sends(3)
	c.becomes("SENT 3")
	r.stop()
}
