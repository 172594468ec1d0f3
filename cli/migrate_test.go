package cli_test

import (
	"database/sql"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/settlemq/settle/cli"
)

func execFile(t *testing.T, path, query string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), query); err != nil {
		t.Fatal(err)
	}
}

const insertOne = `INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload) VALUES ('e-1', 'x', 'k', '{}')`

// migrateThere and back, on a database that is empty and that insert reaches.
func migrateThereAndBack(t *testing.T, at string, insert func(query string)) {
	if out := must(t, cli.ExitFinding, "migrate", "status", "--db", at); !strings.Contains(out, "missing 1 outbox") || strings.Contains(out, "applied") {
		t.Errorf("before, status says\n%s", out)
	}
	plan := must(t, cli.ExitOK, "migrate", "--db", at, "--dry-run")
	if !strings.Contains(plan, "t_outbox_event (\n") || strings.Contains(plan, "DROP TABLE") {
		t.Errorf("the plan is\n%s", plan)
	}
	if out := must(t, cli.ExitFinding, "migrate", "status", "--db", at); strings.Contains(out, "applied") {
		t.Errorf("a dry run changed it:\n%s", out)
	}
	if out := must(t, cli.ExitOK, "migrate", "--db", at); !strings.Contains(out, "applied 1 outbox") {
		t.Errorf("migrate says\n%s", out)
	}
	if out := must(t, cli.ExitOK, "migrate", "--db", at) + must(t, cli.ExitOK, "migrate", "--db", at, "--dry-run"); out != "nothing to do\n-- nothing to do\n" {
		t.Errorf("a second time it says\n%s", out)
	}
	var steps []struct {
		Version int64
		Applied bool
	}
	if err := json.Unmarshal([]byte(must(t, cli.ExitOK, "migrate", "status", "--json", "--db", at)), &steps); err != nil || len(steps) < 4 || !steps[3].Applied || steps[3].Version != 4 {
		t.Errorf("status says %+v, %v", steps, err)
	}
	insert(insertOne)
	if out := must(t, cli.ExitFinding, "migrate", "down", "--to", "0", "--db", at); !strings.Contains(out, "1 events are not sent and 0 wait") {
		t.Errorf("down over an event that was not sent says\n%s", out)
	}
	insert(`DELETE FROM t_outbox_event`)
	if out := must(t, cli.ExitOK, "migrate", "down", "--to", "0", "--db", at, "--dry-run"); !strings.Contains(out, "t_outbox_event;") {
		t.Errorf("the plan down is\n%s", out)
	}
	if out := must(t, cli.ExitOK, "migrate", "down", "--to", "0", "--db", at); !strings.Contains(out, "took back 1 outbox") {
		t.Errorf("down says\n%s", out)
	}
	// Run by hand, the plan is the migration.
	insert(must(t, cli.ExitOK, "migrate", "--db", at, "--dry-run"))
	if out := must(t, cli.ExitOK, "migrate", "--db", at); out != "nothing to do\n" {
		t.Errorf("after the plan migrate says\n%s", out)
	}
}

func TestAFileIsMigratedThereAndBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "order.db")
	migrateThereAndBack(t, sqliteURL(path), func(query string) { execFile(t, path, query) })
}

func TestAFileThatIsOnlyLookedAtIsNotMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "order.db")
	must(t, cli.ExitFinding, "migrate", "status", "--db", sqliteURL(path))
	must(t, cli.ExitOK, "migrate", "--dry-run", "--db", sqliteURL(path))
	must(t, cli.ExitUnreachable, "migrate", "down", "--to", "0", "--db", sqliteURL(path))
	if files, _ := os.ReadDir(filepath.Dir(path)); len(files) > 0 {
		t.Errorf("looking made %v", files)
	}
}

func TestTheSourcesOfAConfigFileAreMigratedAndLookedAt(t *testing.T) {
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one.db"), filepath.Join(dir, "two.db")
	config := writeConfig(t, dir, "embedded: {dir: "+dir+"/broker}\nsources:\n  order: {db: '"+sqliteURL(one)+"'}\n  payment: {db: '"+sqliteURL(two)+"'}\n")
	if out := must(t, cli.ExitOK, "migrate", "-c", config); !strings.Contains(out, "order: applied 1 outbox") || !strings.Contains(out, "payment: applied 1 outbox") {
		t.Errorf("migrate says\n%s", out)
	}
	execFile(t, one, insertOne)
	if out := must(t, cli.ExitOK, "trail", "e-1", "-c", config); !strings.Contains(out, "order") || !strings.Contains(out, "appended") {
		t.Errorf("the trail is\n%s", out)
	}
	if out := must(t, cli.ExitOK, "dead", "list", "-c", config); !strings.Contains(out, "no dead letters") {
		t.Errorf("the dead letters are\n%s", out)
	}
	t.Setenv("SETTLE_TEST_FILE", one)
	if out := must(t, cli.ExitOK, "trail", "e-1", "--db", "order=sqlite://${SETTLE_TEST_FILE}"); !strings.Contains(out, "appended") {
		t.Errorf("the trail by a placeholder is\n%s", out)
	}
	must(t, cli.ExitUsage, "trail", "e-1", "--db", "order=${NO_SUCH_VARIABLE}")
	must(t, cli.ExitOK, "pause", "payment", "topic", "x", "-c", config)
	must(t, cli.ExitOK, "resume", "payment", "topic", "x", "-c", config)
	must(t, cli.ExitOK, "skip", "order", "e-1", "--reason", "a test", "-c", config)
	// One that is away hides its own part only, and a list is whole or an error.
	away := writeConfig(t, t.TempDir(), "embedded: {dir: "+dir+"/broker}\nsources:\n  order: {db: '"+sqliteURL(one)+"'}\n  gone: {db: 'postgres://ann:c4n4ry@127.0.0.1:1/x'}\n")
	if out := must(t, cli.ExitOK, "trail", "e-1", "-c", away); !strings.Contains(out, "appended") || !strings.Contains(out, "! gone did not answer") {
		t.Errorf("with one away the trail is\n%s", out)
	}
	for _, words := range [][]string{{"dead", "list"}, {"dead", "show", "gone:1"}, {"pause", "gone", "relay"}} {
		if out := must(t, cli.ExitUnreachable, append(words, "-c", away)...); !strings.Contains(out, "open the database of gone") || strings.Contains(out, "c4n4ry") {
			t.Errorf("%v: %s", words, out)
		}
	}
	if out := must(t, cli.ExitUsage, "trail", "e-1", "-c", config, "--db", "a="+sqliteURL(one)); !strings.Contains(out, "not both") {
		t.Errorf("with both it says\n%s", out)
	}
}

func TestWhatCanNotBeMigratedIsSaidInOneSentenceWithoutThePassword(t *testing.T) {
	const canary = "c4n4ry"
	t.Setenv("SETTLE_TEST_URL", "postgres://ann:"+canary+"@127.0.0.1:1/x")
	foreign := filepath.Join(t.TempDir(), "notes.db")
	if err := os.WriteFile(foreign, []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(change func(*url.URL)) string {
		u, err := url.Parse("postgres://ann:" + canary + "@127.0.0.1:1/x")
		if err != nil {
			t.Fatal(err)
		}
		change(u)
		return u.String()
	}
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{cli.ExitUsage, "name a database with --db URL", []string{"migrate"}},
		{cli.ExitUsage, "needs --to VERSION", []string{"migrate", "down", "--db", sqliteURL(foreign)}},
		{cli.ExitUsage, `unknown command "upp"`, []string{"migrate", "upp"}},
		{cli.ExitUsage, `unknown scheme "postgress"`, []string{"migrate", "--db", at(func(u *url.URL) { u.Scheme = "postgress" })}},
		{cli.ExitUsage, "there is no name of a database", []string{"migrate", "--db", at(func(u *url.URL) { u.Path = "" })}},
		{cli.ExitUsage, "there is no host", []string{"migrate", "--db", at(func(u *url.URL) { u.Host = "" })}},
		{cli.ExitUsage, `"NO_SUCH_VARIABLE" is not set`, []string{"migrate", "--db", "${NO_SUCH_VARIABLE}"}},
		{cli.ExitUnreachable, "connection refused", []string{"migrate", "--db", "${SETTLE_TEST_URL}"}},
		{cli.ExitUnreachable, "does not exist", []string{"migrate", "--db", "sqlite:///no/such/directory/x.db"}},
		{cli.ExitUnreachable, "not a SQLite database", []string{"migrate", "--db", sqliteURL(foreign)}},
	} {
		code, out, errs := run(t, c.args...)
		if code != c.code || !strings.Contains(errs, c.says) || strings.Contains(out+errs, canary) || strings.Count(errs, "\n") > 1 {
			t.Errorf("settle %v: exit %d, want %d\n%s%s", c.args, code, c.code, out, errs)
		}
	}
}

func TestASchemaOfPostgreSQLIsMigratedThereAndBack(t *testing.T) {
	at := postgresSchema(t)
	migrateThereAndBack(t, at, func(query string) { execPostgres(t, at, query) })
}

func TestAPasswordOrADatabaseThatIsWrongIsSaidInOneSentence(t *testing.T) {
	good, err := url.Parse(postgresSchema(t))
	if err != nil {
		t.Fatal(err)
	}
	for says, change := range map[string]func(*url.URL){
		"refuses this user or password":       func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), "c4n4ry") },
		`database "nowhere_1" does not exist`: func(u *url.URL) { u.Path = "/nowhere_1" },
	} {
		u := *good
		change(&u)
		password, _ := u.User.Password()
		code, out, errs := run(t, "migrate", "--db", u.String())
		if code != cli.ExitUnreachable || !strings.Contains(errs, says) || strings.Contains(out+errs, password) || strings.Count(errs, "\n") > 1 {
			t.Errorf("exit %d\n%s%s", code, out, errs)
		}
	}
}
