package cli_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/internal/services"
)

// freshDatabase returns the URL of a database of the test's own, which is
// dropped when it ends.
func freshDatabase(t *testing.T) string {
	t.Helper()
	at := services.URL(t, "SETTLE_TEST_POSTGRES", "postgres")
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal("SETTLE_TEST_POSTGRES can't be read")
	}
	name := "test_" + strings.ReplaceAll(settle.NewID(), "-", "")
	execute := func(ctx context.Context, query string) {
		db, err := sql.Open("pgx", at)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.ExecContext(ctx, query); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
	execute(t.Context(), "CREATE DATABASE "+name)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		execute(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
	})
	u.Path = "/" + name
	return u.String()
}

const classicOutbox = `CREATE TABLE t_outbox_event (id BIGSERIAL PRIMARY KEY, event_id VARCHAR(64) NOT NULL UNIQUE, aggregate_id VARCHAR(64) NOT NULL, event_type VARCHAR(64) NOT NULL,
 payload JSONB NOT NULL, status VARCHAR(16) NOT NULL, created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE INDEX ON t_outbox_event (status, id);
INSERT INTO t_outbox_event (event_id, aggregate_id, event_type, payload, status) VALUES ('e-1', 'k', 'x', '{"a": 1}', 'SENT'), ('e-2', 'k', 'x', '{"a": 2}', 'PENDING')`

func TestATableIsAdoptedFromTheCommandLine(t *testing.T) {
	at := freshDatabase(t)
	execPostgres(t, at, classicOutbox)
	if out := must(t, cli.ExitFinding, "migrate", "--db", at); !strings.Contains(out, "settle migrate --adopt") {
		t.Errorf("a plain migration says\n%s", out)
	}
	plan := must(t, cli.ExitOK, "migrate", "--adopt", "--db", at, "--topic", "orders")
	for _, want := range []string{"public.t_outbox_event; Settle's own tables are in schema settle", "the body and travels in an envelope", "status     PENDING: pending, 1 rows", "send       1 rows", "topic      orders", "Nothing was changed"} {
		if !strings.Contains(plan, want) {
			t.Errorf("the plan lacks %q:\n%s", want, plan)
		}
	}
	script := must(t, cli.ExitOK, "migrate", "--adopt", "--db", at, "--dry-run")
	if strings.Contains(script, "$1") || !strings.Contains(script, "CREATE SCHEMA IF NOT EXISTS") {
		t.Errorf("the script is\n%s", script)
	}
	own := at + "?search_path=settle"
	if out := must(t, cli.ExitFinding, "migrate", "status", "--db", own); strings.Contains(out, "applied") {
		t.Errorf("a plan and a script have changed something:\n%s", out)
	}
	// Run by hand, the script is the adoption.
	execPostgres(t, at, script)
	if out := must(t, cli.ExitOK, "migrate", "status", "--db", own); strings.Contains(out, "missing") {
		t.Errorf("after the script\n%s", out)
	}
	if out := must(t, cli.ExitOK, "migrate", "--adopt", "--yes", "--db", at, "--topic", "orders", "--project=false"); !strings.Contains(out, "topic: order-domain-event is now orders") || !strings.Contains(out, "projection: true is now false") {
		t.Errorf("with other flags it says\n%s", out)
	}
	var seen struct {
		Adopted bool   `json:"adopted"`
		Payload string `json:"payload"`
		Project bool   `json:"project"`
		Topics  []string
	}
	if err := json.Unmarshal([]byte(must(t, cli.ExitOK, "migrate", "--adopt", "--json", "--db", at)), &seen); err != nil || !seen.Adopted || seen.Payload != "body" || seen.Project || seen.Topics[0] != "orders" {
		t.Errorf("what was decided is %+v, %v", seen, err)
	}
	if out := must(t, cli.ExitOK, "migrate", "--db", own); out != "nothing to do\n" {
		t.Errorf("a plain migration of the adopted schema says\n%s", out)
	}
	if out := must(t, cli.ExitOK, "migrate", "down", "--to", "0", "--db", own); !strings.Contains(out, "took back 1 outbox") {
		t.Errorf("down says\n%s", out)
	}
	if out := must(t, cli.ExitFinding, "migrate", "status", "--db", own); strings.Contains(out, "applied") {
		t.Errorf("after down\n%s", out)
	}
	execPostgres(t, at, "SELECT 1/(SELECT count(*) FROM t_outbox_event WHERE status = 'PENDING')")
}

func TestRestartSaysThatRowsWhichTheOwnersTableCallsSentAreNotCounted(t *testing.T) {
	at := freshDatabase(t)
	execPostgres(t, at, classicOutbox)
	must(t, cli.ExitOK, "migrate", "--adopt", "--yes", "--db", at)
	out := must(t, cli.ExitFinding, "outbox", "restart", "order", "--db", "order="+at+"?search_path=settle")
	if !strings.Contains(out, "there now     1 row, ids 2 to 2") || !strings.Contains(out, "not counted   rows of public.t_outbox_event that its status marks as SENT, or as anything else than PENDING: no choice sends them\n") {
		t.Errorf("restart prints\n%s", out)
	}
}

func TestWrongWordsOfAnAdoptionAreWrongUsage(t *testing.T) {
	const at = "postgres://ann:c4n4ry@127.0.0.1:1/x"
	for says, args := range map[string][]string{
		"--zone belongs to --adopt":             {"--db", at, "--zone", "UTC"},
		"want TYPE=TOPIC":                       {"--adopt", "--db", at, "--topic-of", "orders"},
		"want KIND=WORD":                        {"--adopt", "--db", at, "--status", "lost=LOST"},
		"--wait -5s: it must be above 0":        {"--adopt", "--db", at, "--wait", "-5s"},
		"a topic that ":                         {"--adopt", "--db", at, "--topic", strings.Repeat("t", settle.MaxField+1)},
		"a topic that":                          {"--adopt", "--db", at, "--topic-of", "x=a\nb"},
		"SENT is said to be sent as well":       {"--adopt", "--db", at, "--status", "sent=SENT", "--status", "pending=SENT"},
		"it is envelope or body":                {"--adopt", "--db", at, "--payload", "xml"},
		"in PostgreSQL, MySQL and MariaDB only": {"--adopt", "--db", "sqlite:///tmp/x.db"},
		"--adopt takes one database":            {"--adopt", "-c", "nowhere.yml"},
		"name a database with --db":             {"--adopt"},
		"can't be read":                         {"--adopt", "--db", "://"},
	} {
		out := must(t, cli.ExitUsage, append([]string{"migrate"}, args...)...)
		ok := false
		for _, want := range strings.Split(says, "|") {
			ok = ok || strings.Contains(out, want)
		}
		if !ok || strings.Contains(out, "c4n4ry") {
			t.Errorf("%v: %s", args, out)
		}
	}
	if out := must(t, cli.ExitUnreachable, "migrate", "--adopt", "--db", at); strings.Contains(out, "c4n4ry") {
		t.Errorf("it says %s", out)
	}
}
