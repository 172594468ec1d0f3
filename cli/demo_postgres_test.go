package cli_test

import (
	"database/sql"
	"encoding/json"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/drill"
)

// shopDatabase makes a database that goes with the test. It returns its URL, as
// --db takes it, and the password that must not be seen.
func shopDatabase(t *testing.T) (at, password string) {
	t.Helper()
	u, err := url.Parse(postgresSchema(t))
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	name := q.Get("search_path")
	q.Del("search_path")
	u.RawQuery = q.Encode()
	server := u.String()
	execPostgres(t, server, "CREATE DATABASE "+name)
	t.Cleanup(func() { execPostgres(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	u.Path = "/" + name
	password, _ = u.User.Password()
	return u.String(), password
}

func TestADemoOnPostgreSQLUnderAllFaultsProvesTheSameAndLeavesItsShopToCommands(t *testing.T) {
	at, password := shopDatabase(t)
	t.Setenv("SETTLE_TEST_SHOP_DB", at)
	dir := filepath.Join(t.TempDir(), "shop")
	code, out, errs := output(t, "demo", "--db", "${SETTLE_TEST_SHOP_DB}", "--scenario", "everything", "--orders", "150", "--seed", "3", "--dir", dir, "--json", "--timeout", "4m")
	if code != cli.ExitOK {
		t.Fatalf("exit %d\n%s\n%s", code, out, errs)
	}
	var r drill.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if o := r.Orders; o.Accepted != 150 || o.Completed+o.Cancelled != 150 || o.Completed == 0 || o.Cancelled == 0 {
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
	made := strings.Fields(schemas(t, at))
	for _, name := range made {
		if name != "public" && (!strings.HasPrefix(name, "shop_") || !strings.Contains(errs, name)) {
			t.Errorf("the schema %s is not named in %s", name, errs)
		}
	}
	if len(made) != 1+6 {
		t.Errorf("schemas %v", made)
	}
	passwordIsKept(t, dir, password, out, errs)
	commandsFindTheShop(t, dir)
}

// passwordIsKept looks for the password wherever a demo has written.
func passwordIsKept(t *testing.T, dir, password string, said ...string) {
	t.Helper()
	if strings.Contains(strings.Join(said, ""), password) {
		t.Error("the password was printed")
	}
	var holds []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), password) {
			holds = append(holds, entry.Name())
		}
		return err
	})
	if err != nil || !slices.Equal(holds, []string{"database.url"}) {
		t.Errorf("the password stands in %v, %v", holds, err)
	}
}

// commandsFindTheShop asks what a person would ask of the directory.
func commandsFindTheShop(t *testing.T, dir string) {
	t.Helper()
	var letters []struct {
		Key string `json:"aggregate_id"`
	}
	code, out, errs := output(t, "dead", "list", "--dir", dir, "--state", "any", "--json")
	if err := json.Unmarshal([]byte(out), &letters); code != cli.ExitOK || err != nil || len(letters) == 0 {
		t.Fatalf("dead list: exit %d, %v, %s, %s", code, err, out, errs)
	}
	key := letters[slices.IndexFunc(letters, func(l struct {
		Key string `json:"aggregate_id"`
	}) bool {
		return strings.HasPrefix(l.Key, "o-")
	})].Key
	if code, out, errs := output(t, "trail", "--dir", dir, key); code != cli.ExitOK || !strings.Contains(out, "applied") || !strings.Contains(out, "published") {
		t.Errorf("trail: exit %d, %s, %s", code, out, errs)
	}
	for _, words := range [][]string{{"pause", "order", "relay"}, {"resume", "order", "relay"}} {
		if code, out, errs := output(t, append(words, "--dir", dir, "--reason", "test")...); code != cli.ExitOK {
			t.Errorf("%v: exit %d, %s, %s", words, code, out, errs)
		}
	}
	if code, _, errs := output(t, "shop", "--dir", dir, "--db", "postgres://nobody@127.0.0.1:1/none"); code != cli.ExitUnreachable || !strings.Contains(errs, "127.0.0.1:1") {
		t.Errorf("another database: exit %d, %s", code, errs)
	}
}

func TestADemoOnPostgreSQLLeavesNothingBehindWhenItsDirectoryGoes(t *testing.T) {
	t.Parallel() // it waits for timers
	at, password := shopDatabase(t)
	cmd := program(t, "demo", "--db", "${SETTLE_TEST_SHOP_DB}", "--orders", "10", "--faults", "none")
	tmp := t.TempDir()
	cmd.Env = append(cmd.Env, "TMPDIR="+tmp, "SETTLE_TEST_SHOP_DB="+at)
	out, err := cmd.CombinedOutput()
	left, _ := filepath.Glob(filepath.Join(tmp, "settle-demo-*"))
	if err != nil || len(left) > 0 || strings.Contains(string(out), password) {
		t.Errorf("%v, left %v\n%s", err, left, out)
	}
	if left := schemas(t, at); left != "public" {
		t.Errorf("schemas are left: %s", left)
	}
}

// schemas lists those that people make.
func schemas(t *testing.T, at string) (names string) {
	t.Helper()
	db, err := sql.Open("pgx", at)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.QueryRowContext(t.Context(), `SELECT string_agg(nspname, ' ' ORDER BY nspname) FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema)'`).Scan(&names)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestADatabaseThatCanNotBeIsRefusedBeforeAnythingStarts(t *testing.T) {
	for _, c := range []struct {
		db, says string
		code     int
	}{
		{"sqlite:///tmp/x.db", "PostgreSQL", cli.ExitUsage},
		{"postgres://", "no host", cli.ExitUsage},
		{"postgres://u:s3cret@127.0.0.1:1/x?search_path=a", "search_path", cli.ExitUsage},
		{"${SETTLE_TEST_NOT_SET}", "SETTLE_TEST_NOT_SET", cli.ExitUsage},
		{"postgres://u:s3cret@127.0.0.1:1/x", "127.0.0.1:1", cli.ExitUnreachable},
		{"mysql://", "no host", cli.ExitUsage},
		{"mysql://u:s3cret@127.0.0.1:1/x", "leave it out", cli.ExitUsage},
		{"mysql://u:s3cret@127.0.0.1:1/", "127.0.0.1:1", cli.ExitUnreachable},
	} {
		for _, command := range []string{"demo", "shop"} {
			dir := filepath.Join(t.TempDir(), "shop")
			code, out, errs := output(t, command, "--dir", dir, "--db", c.db)
			if code != c.code || out != "" || !strings.Contains(errs, c.says) || !strings.Contains(errs, "--db") || strings.Contains(errs, "s3cret") {
				t.Errorf("%s --db %s: exit %d, %q, %s", command, c.db, code, out, errs)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
				t.Errorf("%s --db %s left %v", command, c.db, left)
			}
		}
	}
}
