package cli_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/settlemq/settle/cli"
)

const classicOutboxMySQL = `CREATE TABLE t_outbox_event (id BIGINT AUTO_INCREMENT PRIMARY KEY, event_id VARCHAR(64) NOT NULL UNIQUE, aggregate_id VARCHAR(64) NOT NULL, event_type VARCHAR(64) NOT NULL,
 payload JSON NOT NULL, status VARCHAR(16) NOT NULL, created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP, KEY (status, id));
INSERT INTO t_outbox_event (event_id, aggregate_id, event_type, payload, status) VALUES ('e-1', 'k', 'x', '{"a": 1}', 'SENT'), ('e-2', 'k', 'x', '{"a": 2}', 'PENDING')`

// classicMySQL is the URL of a database with a classic outbox, and that of
// Settle's own beside it.
func classicMySQL(t *testing.T) (at, own string) {
	t.Helper()
	at = mysqlDatabase(t)
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	name := u.Path[1:]
	u.Path = "/settle"
	execMySQL(t, u.String(), "CREATE DATABASE "+name)
	t.Cleanup(func() { execMySQL(t, u.String(), "DROP DATABASE IF EXISTS "+name+"_settle") })
	execMySQL(t, at, classicOutboxMySQL)
	return at, at + "_settle"
}

func TestATableOfMySQLIsAdoptedFromTheCommandLine(t *testing.T) {
	at, own := classicMySQL(t)
	if out := must(t, cli.ExitFinding, "migrate", "--db", at); !strings.Contains(out, "settle migrate --adopt") {
		t.Errorf("a plain migration says\n%s", out)
	}
	plan := must(t, cli.ExitOK, "migrate", "--adopt", "--db", at, "--topic", "orders")
	for _, want := range []string{".t_outbox_event; Settle's own tables are in database test_", "_settle\n", "the body and travels in an envelope", "status     PENDING: pending, 1 rows", "send       1 rows", "topic      orders", "Nothing was changed"} {
		if !strings.Contains(plan, want) {
			t.Errorf("the plan lacks %q:\n%s", want, plan)
		}
	}
	script := must(t, cli.ExitOK, "migrate", "--adopt", "--db", at, "--dry-run")
	if strings.Contains(script, "VALUES (1, ?") || !strings.Contains(script, "CREATE DATABASE IF NOT EXISTS") {
		t.Errorf("the script is\n%s", script)
	}
	if out := must(t, cli.ExitFinding, "migrate", "status", "--db", own); strings.Contains(out, "applied") {
		t.Errorf("a plan and a script have changed something:\n%s", out)
	}
	// Run by hand, the script is the adoption.
	execMySQL(t, at, script)
	if out := must(t, cli.ExitOK, "migrate", "status", "--db", own); strings.Contains(out, "missing") {
		t.Errorf("after the script\n%s", out)
	}
	if out := must(t, cli.ExitOK, "migrate", "--adopt", "--yes", "--db", at, "--topic", "orders", "--project=false"); !strings.Contains(out, "topic: order-domain-event is now orders") || !strings.Contains(out, "projection: true is now false") ||
		!strings.Contains(out, "_settle as its database") {
		t.Errorf("with other flags it says\n%s", out)
	}
	var seen struct {
		Adopted bool   `json:"adopted"`
		Payload string `json:"payload"`
		Project bool   `json:"project"`
		Topics  []string
	}
	// Settle's own URL says which table it is.
	if err := json.Unmarshal([]byte(must(t, cli.ExitOK, "migrate", "--adopt", "--json", "--db", own)), &seen); err != nil || !seen.Adopted || seen.Payload != "body" || seen.Project || seen.Topics[0] != "orders" {
		t.Errorf("what was decided is %+v, %v", seen, err)
	}
	if out := must(t, cli.ExitOK, "migrate", "--db", own); out != "nothing to do\n" {
		t.Errorf("a plain migration of the adopted database says\n%s", out)
	}
	if out := must(t, cli.ExitOK, "migrate", "down", "--to", "0", "--db", own); !strings.Contains(out, "took back 1 outbox") {
		t.Errorf("down says\n%s", out)
	}
	if out := must(t, cli.ExitFinding, "migrate", "status", "--db", own); strings.Contains(out, "applied") {
		t.Errorf("after down\n%s", out)
	}
	execMySQL(t, at, "UPDATE t_outbox_event SET payload = IF((SELECT count(*) FROM (SELECT * FROM t_outbox_event WHERE status = 'PENDING') p) = 1, payload, 'gone')")
}
