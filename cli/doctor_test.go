package cli_test

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/doctor"
)

func migrated(t *testing.T) (at, path string) {
	t.Helper()
	// The folder for temporary files may be kept in memory, which is bad; the
	// checkout is on a disk.
	beside, err := os.MkdirTemp(".", "doctor-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(beside) })
	if beside, err = filepath.Abs(beside); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{t.TempDir(), beside} {
		path = filepath.Join(dir, "order.db")
		at = (&url.URL{Scheme: "sqlite", Path: path}).String()
		must(t, cli.ExitOK, "migrate", "--db", at)
		if _, out, _ := run(t, "doctor", "--db", at); !strings.Contains(out, "bad   file_system: memory") {
			return at, path
		}
	}
	t.Fatal("both the folder for temporary files and the checkout are kept in memory; set TMPDIR to a disk")
	return "", ""
}

func TestDoctorSaysWhatIsSoundWhatIsBadAndWhatMendsIt(t *testing.T) {
	at, path := migrated(t)
	if out := must(t, cli.ExitOK, "doctor", "--db", at); !strings.Contains(out, "ok    integrity: ok\n") || strings.Contains(out, "why:") || strings.Contains(out, "bad ") {
		t.Errorf("of a sound file it says\n%s", out)
	}
	if out := must(t, cli.ExitOK, "doctor", "--db", at, "--why"); strings.Count(out, "why:") < 10 {
		t.Errorf("with --why it says\n%s", out)
	}
	execFile(t, path, "DROP INDEX i_outbox_trace")
	for _, want := range []string{"bad   tables: index i_outbox_trace is missing\n", "      why: a table", "      fix: CREATE INDEX i_outbox_trace ON t_outbox_event (trace_id)", "--lax"} {
		if out := must(t, cli.ExitFinding, "doctor", "--db", at); !strings.Contains(out, want) {
			t.Errorf("it does not say %q\n%s", want, out)
		}
	}
	must(t, cli.ExitOK, "doctor", "--db", at, "--lax")
	code, out, _ := run(t, "doctor", "--db", at, "--json")
	var list []doctor.Finding
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != cli.ExitFinding || doctor.Worst(list) != doctor.Bad {
		t.Errorf("exit %d, %v\n%s", code, err, out)
	}
}

func TestDoctorLooksAtEverySourceAlsoBehindOneThatIsNotThere(t *testing.T) {
	at, _ := migrated(t)
	config := filepath.Join(t.TempDir(), "settle.yml")
	text := "sources:\n  a:\n    db: sqlite:///no/such/file.db\n    broker: \"nats://s3cret@127.0.0.1:1\"\n  b:\n    db: " + at + "\n    broker: \"nats://s3cret@127.0.0.1:1\"\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := run(t, "doctor", "-c", config)
	if code != cli.ExitUnreachable || !strings.Contains(errs, "a: open database /no/such/file.db: the file does not exist") || !strings.Contains(out, "ok    b integrity: ok") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	code, out, _ = run(t, "doctor", "-c", config, "--json")
	if code != cli.ExitUnreachable || !strings.Contains(out, `"source": "b"`) || strings.Contains(out, `"source": "a"`) {
		t.Errorf("exit %d\n%s", code, out)
	}
}

func TestDoctorTellsWrongUsageFromWhatCanNotBeReachedAndShowsNoPassword(t *testing.T) {
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{cli.ExitUsage, "name a database with --db", nil},
		{cli.ExitUsage, `unknown scheme "mysqll"`, []string{"--db", "mysqll://u:canary@h/d"}},
		{cli.ExitUsage, "takes no argument", []string{"x"}},
		{cli.ExitUsage, "can't be read", []string{"--db", "postgres://u:canary%@h/d"}},
		{cli.ExitUnreachable, "nothing listens there", []string{"--db", "postgres://u:canary@127.0.0.1:1/d"}},
		{cli.ExitUnreachable, "nothing listens there", []string{"--db", "postgres://u@127.0.0.1:1/d?password=canary"}},
		{cli.ExitUnreachable, "can't be resolved", []string{"--db", "postgres://u:canary@host.invalid/d", "--json"}},
		{cli.ExitUnreachable, "does not exist", []string{"--db", "sqlite:///no/such/file.db"}},
	} {
		code, out, errs := run(t, append([]string{"doctor"}, c.args...)...)
		if code != c.code || !strings.Contains(errs, c.says) || strings.Contains(out+errs, "canary") {
			t.Errorf("doctor %v: exit %d\n%s%s", c.args, code, out, errs)
		}
	}
}

func TestDoctorExaminesPostgreSQL(t *testing.T) {
	at := postgresSchema(t)
	if out := must(t, cli.ExitFinding, "doctor", "--db", at); !strings.Contains(out, "bad   schema: there is no schema test_") || !strings.Contains(out, "settle migrate") {
		t.Errorf("before it says\n%s", out)
	}
	must(t, cli.ExitOK, "migrate", "--db", at)
	if out := must(t, cli.ExitOK, "doctor", "--db", at); !strings.Contains(out, "ok    schema: version") {
		t.Errorf("it says\n%s", out)
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	u.User = url.UserPassword("postgres", password+"wrong")
	code, out, errs := run(t, "doctor", "--db", u.String())
	if code != cli.ExitUnreachable || !strings.Contains(errs, "password authentication failed") || strings.Contains(out+errs, password) || strings.Count(errs, "\n") != 1 {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

func checksOf(t *testing.T, at string) map[string]bool {
	t.Helper()
	_, out, _ := run(t, "doctor", "--json", "--db", at)
	var list []doctor.Finding
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	names := map[string]bool{}
	for _, f := range list {
		names[f.Check] = true
	}
	return names
}

const classicConsumeLog = `CREATE TABLE t_message_consume_log (id BIGSERIAL PRIMARY KEY, consumer_group VARCHAR(128) NOT NULL, message_id VARCHAR(64) NOT NULL, biz_key VARCHAR(64),
 status VARCHAR(16) NOT NULL, consumed_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, UNIQUE (consumer_group, message_id))`

func TestTheDocumentListsEachCheckOfTheDoctor(t *testing.T) {
	at, _ := migrated(t)
	adopted, mysql := freshDatabase(t), mysqlDatabase(t)
	execPostgres(t, adopted, classicOutbox)
	must(t, cli.ExitOK, "migrate", "--adopt", "--yes", "--db", adopted)
	must(t, cli.ExitOK, "migrate", "--db", mysql)
	shared := freshDatabase(t)
	execPostgres(t, shared, classicConsumeLog)
	must(t, cli.ExitOK, "migrate", "--adopt", "--yes", "--db", shared)
	checks := map[string]map[string]bool{
		"PostgreSQL": checksOf(t, postgresSchema(t)), "adopted": checksOf(t, adopted+"?search_path=settle"),
		"shared": checksOf(t, shared+"?search_path=settle"), "SQLite": checksOf(t, at), "MySQL": checksOf(t, mysql),
	}
	page, err := os.ReadFile("../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if !strings.HasPrefix(line, "| `") || len(cells) != 5 {
			continue
		}
		name, of := strings.Trim(cells[1], " `"), strings.TrimSpace(cells[2])
		listed[name] = true
		for database, has := range checks {
			want := of == "all" || strings.Contains(of, database) || strings.Contains(of, "PostgreSQL") && (database == "adopted" || database == "shared")
			if only, _ := strings.CutPrefix(of, "PostgreSQL, "); only == "adopted" || only == "shared" {
				want = database == only
			}
			if want != has[name] {
				t.Errorf("%s is listed as of %s; on %s it is %v", name, of, database, has[name])
			}
		}
	}
	for database, has := range checks {
		for name := range has {
			if !listed[name] {
				t.Errorf("%s of %s is not listed", name, database)
			}
		}
	}
}
