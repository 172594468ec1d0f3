package mysql_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/mysql"
	"github.com/settlemq/settle/store/storetest/adopted"
)

func findingsAt(t testing.TB, at string) map[string]doctor.Finding {
	t.Helper()
	all, err := mysql.NewDoctor(at, mysql.DoctorConfig{}).Check(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]doctor.Finding{}
	for _, f := range all {
		found[f.Check] = f
	}
	return found
}

func (c *classic) findings() map[string]doctor.Finding {
	c.t.Helper()
	return findingsAt(c.t, c.settle())
}

func TestDoctorLooksAtAnAdoptedTableInThePlaceOfOurOwn(t *testing.T) {
	c := newClassic(t, strings.Replace(classicTable, "payload JSON", "payload LONGTEXT", 1))
	c.insert(1, 3, "SENT")
	c.insert(4, 6, "PENDING")
	c.adopt(migrate.AdoptConfig{})
	r := c.relay(newMemory(t), relay.Config{})
	r.sends(3)
	c.becomes("SENT 6")
	all := c.findings()
	for _, name := range []string{"schema", "tables", "indexes", "collations", "engines", "privileges", "outbox_id", "pooled_ids", "generation", "never_sent", "adoption", "payload", "set_back", "old_relay", "relay"} {
		if f, ok := all[name]; !ok || f.Verdict != doctor.OK {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if f := all["adoption"]; !strings.Contains(f.Found, c.table()) {
		t.Errorf("the table is called %q", f.Found)
	}
	pooled := ""
	for g := 10; g < 30; g++ {
		for k := range 4 {
			pooled += fmt.Sprintf(", (%d, 'p-%d-%d', 'x', 'x', 'x', '{}', 'SENT')", g*50+k, g, k)
		}
	}
	for name, plant := range map[string]string{
		"payload":    `ALTER TABLE t_outbox_event MODIFY payload VARCHAR(2000) NOT NULL`,
		"adoption":   `ALTER TABLE t_outbox_event MODIFY last_error VARCHAR(80)`,
		"pooled_ids": `INSERT INTO t_outbox_event (id, event_id, aggregate_type, aggregate_id, event_type, payload, status) VALUES ` + pooled[2:],
		"indexes":    `DROP INDEX idx_outbox_status_retry ON t_outbox_event`,
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
	}{{"event_id VARCHAR(128) NOT NULL", doctor.Warn}, {"event_id VARCHAR(64) NOT NULL", doctor.OK}, {"last_error MEDIUMTEXT", doctor.Warn}, {"last_error TEXT", doctor.OK}, {"status VARCHAR(8) NOT NULL", doctor.Bad}} {
		c.exec(`ALTER TABLE t_outbox_event MODIFY ` + change.typed)
		if f := c.findings()["adoption"]; f.Verdict != change.want {
			t.Errorf("%s: %+v", change.typed, f)
		}
	}
	c.exec(`ALTER TABLE t_outbox_event MODIFY status VARCHAR(16) NOT NULL, ENGINE = MyISAM`)
	if f := c.findings()["adoption"]; f.Verdict != doctor.Bad || !strings.Contains(f.Found, "MyISAM") {
		t.Errorf("of another engine: %+v", f)
	}
	c.exec(`DROP TABLE t_outbox_event`)
	if f := c.findings()["adoption"]; f.Verdict != doctor.Bad || !strings.Contains(f.Found, "is gone") {
		t.Errorf("of none: %+v", f)
	}
}

// account makes a user who may do everything in Settle's own database.
func (c *classic) account() (name, at string) {
	c.t.Helper()
	user := "test_" + strings.ReplaceAll(settle.NewID(), "-", "")[10:]
	name = "'" + user + "'@'%'"
	c.exec("CREATE USER " + name + " IDENTIFIED BY 'canary'")
	c.t.Cleanup(func() { c.exec("DROP USER " + name) })
	c.exec("GRANT ALL ON `" + strings.ReplaceAll(c.own, "_", "\\_") + "`.* TO " + name)
	u, err := url.Parse(c.settle())
	if err != nil {
		c.t.Fatal(err)
	}
	u.User = url.UserPassword(user, "canary")
	return name, u.String()
}

func TestDoctorNamesTheRightsOnAnAdoptedTableThatARelayLacks(t *testing.T) {
	t.Parallel()
	c := newClassic(t, classicTable)
	c.adopt(migrate.AdoptConfig{})
	_, at := c.account()
	var named string
	for range 4 {
		f := findingsAt(t, at)["privileges"]
		if f.Verdict == doctor.OK {
			break
		}
		named += f.Found + "; "
		c.exec(f.Fix)
	}
	for _, want := range []string{"SELECT", "UPDATE"} {
		if !strings.Contains(named, want) || !strings.Contains(named, c.table()) {
			t.Errorf("it does not name %s: %s", want, named)
		}
	}
	if f := findingsAt(t, at)["privileges"]; f.Verdict != doctor.OK {
		t.Errorf("what it names never suffices: %+v", f)
	}
}

func TestDoctorNamesTheRightsOnASharedConsumeLogThatARoleLacks(t *testing.T) {
	t.Parallel()
	c := newClassic(t, classicConsumeLog+";"+dialect().CreateEffects())
	if _, err := c.tryAdopt(migrate.AdoptConfig{ConsumeLog: c.database + ".t_message_consume_log"}); err != nil {
		t.Fatal(err)
	}
	account, at := c.account()
	f := findingsAt(t, at)["shared_log_rights"]
	if f.Verdict != doctor.Bad || !strings.Contains(f.Found, "SELECT, INSERT, UPDATE, DELETE") {
		t.Fatalf("found %+v", f)
	}
	c.exec(f.Fix)
	c.exec("GRANT INSERT ON " + c.database + ".t_effect TO " + account)
	if f := findingsAt(t, at)["shared_log_rights"]; f.Verdict != doctor.OK {
		t.Errorf("with them: %+v", f)
	}
	s, err := mysql.Open(t.Context(), at, mysql.Config{Existing: true, StatementTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	svc := &adopted.Service{TB: t, DB: c.db, Schema: c.database}
	if got := svc.Apply(adopted.Store{Inbox: s.Inbox()}, adopted.Item("e", "k")); got[0] != settle.VerdictApplied {
		t.Errorf("a consumer with these rights has %v", got)
	}
}
