package cli_test

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/settlemq/settle/cli"
)

func TestALeanOutboxIsMadeAndChangedAndItsTrailSaysWhatItDidNotSearch(t *testing.T) {
	at := postgresSchema(t)
	// Run by hand, the plan is the migration.
	plan := must(t, cli.ExitOK, "migrate", "--db", at, "--lean", "--dry-run")
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	execPostgres(t, at, "CREATE SCHEMA "+u.Query().Get("search_path"))
	execPostgres(t, at, plan)
	if out := must(t, cli.ExitOK, "migrate", "--db", at, "--lean"); out != "nothing to do\n" {
		t.Errorf("after the plan migrate says\n%s", out)
	}
	layout := func(want string) {
		t.Helper()
		if out := must(t, cli.ExitOK, "migrate", "status", "--db", at); !strings.HasSuffix(out, "layout "+want+"\n") {
			t.Errorf("status ends without layout %s:\n%s", want, out)
		}
		if out := must(t, cli.ExitOK, "migrate", "status", "--json", "--db", at); !strings.Contains(out, `"layout": "`+want+`"`) && !strings.Contains(out, `"layout":"`+want+`"`) {
			t.Errorf("status does not say layout %s:\n%s", want, out)
		}
	}
	layout("lean")
	execPostgres(t, at, insertOne)
	source := "order=" + at
	if out := must(t, cli.ExitFinding, "trail", "k", "--db", source); !strings.Contains(out, "the outbox of order can be asked by event id only") {
		t.Errorf("by the order id the trail says\n%s", out)
	}
	if out := must(t, cli.ExitOK, "trail", "e-1", "--db", source); !strings.Contains(out, "appended") || strings.Contains(out, "lean") {
		t.Errorf("by the event id the trail says\n%s", out)
	}
	// Consumers of another service know the order, and what they know is followed.
	other := postgresSchema(t)
	must(t, cli.ExitOK, "migrate", "--db", other)
	execPostgres(t, other, strings.Replace(insertOne, "e-1", "e-2", 1))
	if out := must(t, cli.ExitOK, "trail", "k", "--db", source, "--db", "payment="+other); !strings.Contains(out, "e-2") || !strings.Contains(out, "! the outbox of order was not searched by this id") || strings.Contains(out, "outbox of payment") {
		t.Errorf("over two services the trail says\n%s", out)
	}
	must(t, cli.ExitOK, "migrate", "--db", at)
	layout("lean")
	if out := must(t, cli.ExitOK, "migrate", "--db", at, "--lean=false", "--dry-run"); strings.Count(out, "CREATE INDEX CONCURRENTLY") != 3 {
		t.Errorf("the plan back is\n%s", out)
	}
	if out := must(t, cli.ExitOK, "migrate", "--db", at, "--lean=false"); strings.Count(out, "CREATE INDEX CONCURRENTLY") != 3 {
		t.Errorf("on the way back it says\n%s", out)
	}
	layout("full")
	if out := must(t, cli.ExitOK, "trail", "k", "--db", source); !strings.Contains(out, "appended") || strings.Contains(out, "lean") {
		t.Errorf("full, the trail by the order id says\n%s", out)
	}
	fresh := postgresSchema(t)
	if out := must(t, cli.ExitOK, "migrate", "--db", fresh, "--lean"); !strings.Contains(out, "applied 1 outbox") || strings.Count(out, "DROP INDEX CONCURRENTLY") != 3 {
		t.Errorf("a new one is made by\n%s", out)
	}
}

func TestADatabaseWithoutALeanLayoutIsRefusedAndNotMigrated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "order.db")
	if out := must(t, cli.ExitFinding, "migrate", "--lean", "--db", sqliteURL(path)); !strings.Contains(out, "in PostgreSQL or MySQL has a lean layout") {
		t.Errorf("it says\n%s", out)
	}
	if out := must(t, cli.ExitFinding, "migrate", "status", "--db", sqliteURL(path)); strings.Contains(out, "applied") {
		t.Errorf("it was migrated:\n%s", out)
	}
	must(t, cli.ExitUsage, "migrate", "--lean", "--adopt", "--db", "postgres://127.0.0.1:1/x")
}

func TestAnOutboxIsMadeInPartitionsAndMadeOneTableAgain(t *testing.T) {
	at := postgresSchema(t)
	// Run by hand, the plan is the migration.
	plan := must(t, cli.ExitOK, "migrate", "--db", at, "--partitioned", "--partition-ids", "1000", "--lean", "--dry-run")
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	execPostgres(t, at, "CREATE SCHEMA "+u.Query().Get("search_path"))
	execPostgres(t, at, plan)
	if out := must(t, cli.ExitOK, "migrate", "--db", at, "--partitioned", "--lean"); out != "nothing to do\n" {
		t.Errorf("after the plan migrate says\n%s", out)
	}
	if out := must(t, cli.ExitOK, "migrate", "status", "--db", at); !strings.HasSuffix(out, "layout lean, in partitions of 1000 ids\n") {
		t.Errorf("status ends with\n%s", out)
	}
	if out := must(t, cli.ExitOK, "migrate", "status", "--json", "--db", at); !strings.Contains(out, `"partition_ids": 1000`) && !strings.Contains(out, `"partition_ids":1000`) {
		t.Errorf("status does not say how wide partitions are:\n%s", out)
	}
	execPostgres(t, at, insertOne)
	if out := must(t, cli.ExitOK, "migrate", "--db", at, "--partitioned=false"); !strings.Contains(out, "INSERT INTO t_outbox_event SELECT * FROM t_outbox_event_old") {
		t.Errorf("on the way back it says\n%s", out)
	}
	if out := must(t, cli.ExitOK, "migrate", "status", "--db", at); !strings.HasSuffix(out, "layout lean\n") {
		t.Errorf("status ends with\n%s", out)
	}
	if out := must(t, cli.ExitOK, "trail", "e-1", "--db", "order="+at); !strings.Contains(out, "appended") {
		t.Errorf("the trail of an event from before says\n%s", out)
	}
	must(t, cli.ExitOK, "migrate", "--db", at, "--partitioned")
	execPostgres(t, at, strings.Replace(insertOne, "e-1", "e-2", 1))
	if out := must(t, cli.ExitFinding, "migrate", "down", "--db", at, "--to", "0"); !strings.Contains(out, "2 events are not sent") {
		t.Errorf("down says\n%s", out)
	}
	execPostgres(t, at, "DELETE FROM t_outbox_event")
	must(t, cli.ExitOK, "migrate", "down", "--db", at, "--to", "0")
	path := filepath.Join(t.TempDir(), "order.db")
	if out := must(t, cli.ExitFinding, "migrate", "--partitioned", "--db", sqliteURL(path)); !strings.Contains(out, "in PostgreSQL can be divided into partitions") {
		t.Errorf("of SQLite it says\n%s", out)
	}
	for _, wrong := range [][]string{{"--partition-ids", "1000"}, {"--partitioned", "--partition-ids", "10"}, {"--partitioned", "--adopt"}} {
		must(t, cli.ExitUsage, append([]string{"migrate", "--db", at}, wrong...)...)
	}
}
