package cli_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/drill"
)

// mysqlServer returns the URL of the tests' server, as --db takes it, and the
// password that must not be seen.
func mysqlServer(t *testing.T) (at, password string) {
	t.Helper()
	u, err := url.Parse(mysqlDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/"
	password, _ = u.User.Password()
	return u.String(), password
}

// mysqlDSN is a URL as the driver takes it.
func mysqlDSN(t *testing.T, at string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	return u.User.Username() + ":" + password + "@tcp(" + u.Host + ")" + u.Path
}

// shopsDatabases lists the databases of the shop whose prefix a demo has told.
func shopsDatabases(t *testing.T, at, prefix string) (names []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	db, err := sql.Open("mysql", mysqlDSN(t, at))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, `SELECT schema_name FROM information_schema.schemata WHERE LEFT(schema_name, CHAR_LENGTH(?)) = ? ORDER BY 1`, prefix, prefix)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}

// dropsOf returns the statements by which a demo says that what it left goes.
func dropsOf(said string) (statements []string) {
	for line := range strings.Lines(said) {
		if _, list, ok := strings.Cut(line, "The services' tables are in the database; "); ok {
			return strings.Split(strings.TrimSuffix(strings.TrimSpace(list), " removes them."), "; ")
		}
	}
	return nil
}

func TestADemoOnMySQLUnderAllFaultsProvesTheSameAndNamesWhatItLeaves(t *testing.T) {
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("a demo on MariaDB takes minutes beside other tests: set SETTLE_TEST_ALL=1")
	}
	at, password := mysqlServer(t)
	t.Setenv("SETTLE_TEST_SHOP_DB", at)
	dir := filepath.Join(t.TempDir(), "shop")
	code, out, errs := output(t, "demo", "--db", "${SETTLE_TEST_SHOP_DB}", "--scenario", "everything", "--orders", "120", "--faults", "all", "--seed", "3", "--dir", dir, "--json", "--timeout", "4m")
	drops := dropsOf(errs)
	t.Cleanup(func() {
		for _, statement := range drops {
			execMySQL(t, at, statement)
		}
	})
	if code != cli.ExitOK {
		t.Fatalf("exit %d\n%s\n%s", code, out, errs)
	}
	var r drill.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if o := r.Orders; o.Accepted != 120 || o.Completed+o.Cancelled != 120 || o.Completed == 0 || o.Cancelled == 0 {
		t.Errorf("orders %+v", o)
	}
	for _, f := range r.Faults {
		if f.Times < 1 {
			t.Errorf("%s happened %d times", f.Name, f.Times)
		}
	}
	if bad := r.Failures(); len(bad) > 0 || len(r.Faults) != len(drill.FaultNames()) || r.Deliveries.Dead == 0 {
		t.Errorf("%v, %+v", bad, r)
	}
	if len(drops) != 6 {
		t.Fatalf("what is left is not named in %s", errs)
	}
	prefix := strings.TrimSuffix(strings.TrimPrefix(drops[0], "DROP DATABASE "), "order")
	made := shopsDatabases(t, at, prefix)
	for _, name := range made {
		if !strings.Contains(strings.Join(drops, ";")+";", "DROP DATABASE "+name+";") {
			t.Errorf("%s is not named in %v", name, drops)
		}
	}
	if len(made) != len(drops) {
		t.Errorf("databases %v", made)
	}
	passwordIsKept(t, dir, password, out, errs)
	commandsFindTheShop(t, dir)
}
