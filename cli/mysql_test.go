package cli_test

import (
	"context"
	"database/sql"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // sql.Open("mysql", …)

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/internal/services"
)

// mysqlDatabase returns the URL of a database that does not exist yet and is
// dropped when the test ends.
func mysqlDatabase(t *testing.T) string {
	t.Helper()
	at := services.URL(t, "SETTLE_TEST_MYSQL", "mariadb")
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal("SETTLE_TEST_MYSQL can't be read")
	}
	name := "test_" + strings.ReplaceAll(settle.NewID(), "-", "")
	t.Cleanup(func() { execMySQL(t, at, "DROP DATABASE IF EXISTS "+name) })
	u.Path = "/" + name
	return u.String()
}

// emptyMySQL is mysqlDatabase of one that is there and has no tables.
func emptyMySQL(t *testing.T) string {
	t.Helper()
	at := mysqlDatabase(t)
	execMySQL(t, os.Getenv("SETTLE_TEST_MYSQL"), "CREATE DATABASE "+at[strings.LastIndex(at, "/")+1:])
	return at
}

func execMySQL(t *testing.T, at, query string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	db, err := sql.Open("mysql", u.User.Username()+":"+password+"@tcp("+u.Host+")"+u.Path+"?multiStatements=true")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, query); err != nil {
		t.Fatal(err)
	}
}

func TestAMySQLDatabaseIsMigratedThereAndBack(t *testing.T) {
	at := mysqlDatabase(t)
	migrateThereAndBack(t, at, func(query string) { execMySQL(t, at, query) })
}

func TestTheWayDownOfMySQLIsRefusedWhileARelayLeads(t *testing.T) {
	at := mysqlDatabase(t)
	must(t, cli.ExitOK, "migrate", "--db", at)
	db, err := dial.Store(t.Context(), at, dial.StoreConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	lease, err := db.Log.Lead(t.Context(), "a relay", 0, time.Hour)
	if err != nil || !lease.Held {
		t.Fatal(lease, err)
	}
	if out := must(t, cli.ExitFinding, "migrate", "down", "--to", "0", "--db", at); !strings.Contains(out, "a relay leads this outbox: a relay, until") {
		t.Errorf("down says\n%s", out)
	}
	if out := must(t, cli.ExitOK, "migrate", "status", "--db", at); strings.Contains(out, "missing") {
		t.Errorf("a refused way down has taken something back:\n%s", out)
	}
	if err := db.Log.Resign(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	must(t, cli.ExitOK, "migrate", "down", "--to", "0", "--db", at)
}

func TestADatabaseOfMySQLIsExaminedAndItsTrailTold(t *testing.T) {
	at := mysqlDatabase(t)
	if out := must(t, cli.ExitUnreachable, "doctor", "--db", at); !strings.Contains(out, "Unknown database") || !strings.Contains(out, "CREATE DATABASE") {
		t.Errorf("of a database that is missing doctor says %s", out)
	}
	must(t, cli.ExitOK, "migrate", "--db", at)
	if out := must(t, cli.ExitOK, "doctor", "--lax", "--db", at); !strings.Contains(out, "ok    schema: version ") || !strings.Contains(out, "ok    collations: ") {
		t.Errorf("doctor says\n%s", out)
	}
	execMySQL(t, at, insertOne)
	if out := must(t, cli.ExitOK, "trail", "k", "--db", "order="+at); !strings.Contains(out, "e-1") || !strings.Contains(out, "appended") {
		t.Errorf("the trail is\n%s", out)
	}
	execMySQL(t, at, `INSERT INTO t_dead_letter (service_side, consumer_group, event_id, event_type, aggregate_id, class, reason, attempts, state, opened_at, due_at, raw)
VALUES ('consumer', 'stock', 'e-1', 'x', 'k', 'handler', 'no stock', 10, 'OPEN', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), '{}')`)
	if out := must(t, cli.ExitOK, "dead", "list", "--db", "order="+at); !strings.Contains(out, "order:1") || !strings.Contains(out, "no stock") {
		t.Errorf("the list is\n%s", out)
	}
	must(t, cli.ExitOK, "dead", "discard", "order:1", "--reason", "no use", "--by", "ann", "--db", "order="+at)
	if out := must(t, cli.ExitOK, "trail", "k", "--db", "order="+at); !strings.Contains(out, "discarded") || !strings.Contains(out, "ann") {
		t.Errorf("after it was discarded the trail is\n%s", out)
	}
}
