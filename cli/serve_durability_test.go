package cli_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/internal/pgserver"
	"github.com/settlemq/settle/server"
)

// unsafeSettings are planted in a server's file.
var unsafeSettings = []string{"fsync", "full_page_writes", "synchronous_commit"}

func plant(s *pgserver.Server, setting string) {
	s.Exec("ALTER SYSTEM SET "+setting+" = off", "SELECT pg_reload_conf()")
	s.Await("SELECT reset_val = 'off' FROM pg_settings WHERE name = '" + setting + "'")
}

func mend(s *pgserver.Server, setting string) {
	s.Exec("ALTER SYSTEM RESET "+setting, "SELECT pg_reload_conf()")
	s.Await("SELECT reset_val = 'on' FROM pg_settings WHERE name = '" + setting + "'")
}

func TestADatabaseThatMayLoseWhatItHasCommittedIsNotRelayedUntilItIsMended(t *testing.T) {
	t.Parallel()
	own := pgserver.Own(t)
	dir, broker := t.TempDir(), serveBroker(t)
	config := writeConfig(t, dir, "sources:\n  strict: {db: '"+own.URL("strict")+"', broker: '"+broker+"', migrate: true}\n"+
		"  lax: {db: '"+own.URL("lax")+"', broker: '"+broker+"', migrate: true, durability: lax}\n"+
		"  other: {db: '"+sqliteURL(filepath.Join(dir, "other.db"))+"', broker: '"+broker+"', migrate: true, durability: lax}\n")
	plant(own, "fsync")
	s := serve(t, config)
	h := s.await(t, "judged", func(h server.Health) bool {
		return sourceIs("strict", server.StateRefused)(h) && sourceIs("lax", server.StateLeading)(h) && sourceIs("other", server.StateLeading)(h)
	})
	for _, word := range []string{"fsync: off", "ALTER SYSTEM SET fsync = 'on'", "durability: lax"} {
		if got := h.Sources["strict"]; got.What != "durability" || !strings.Contains(got.Cause, word) || len(got.Warnings) > 0 {
			t.Errorf("the strict one says %+v; want %q", got, word)
		}
	}
	if got := h.Sources["lax"].Warnings; len(got) != 2 || !strings.Contains(got[0], "fsync: off") || !strings.Contains(got[1], "sync_interval: can't be looked at") {
		t.Errorf("the lax one warns of %q", got)
	}
	if _, code := s.read(); code != http.StatusServiceUnavailable {
		t.Errorf("readyz answers %d", code)
	}
	execPostgres(t, own.URL("strict"), insertOne)
	execPostgres(t, own.URL("lax"), insertOne)
	h = s.await(t, "sending", func(h server.Health) bool { return h.Sources["lax"].Published == 1 })
	if n := h.Sources["strict"].Published; n != 0 {
		t.Errorf("of a refused database %d events were sent", n)
	}
	mend(own, "fsync")
	s.await(t, "mended", func(h server.Health) bool {
		return sourceIs("strict", server.StateLeading)(h) && h.Sources["strict"].Published == 1
	})
	s.term(t)
	for text, times := range map[string]int{"source=strict state=refused": 1, `msg="committed events may be lost" source=lax cause="fsync: off`: 1} {
		if n := strings.Count(s.log.String(), text); n != times {
			t.Errorf("%q is told %d times:\n%s", text, n, s.log)
		}
	}
	for _, setting := range unsafeSettings {
		plant(own, setting)
		code, out, _ := run(t, "serve", "-c", config, "--check")
		if code != cli.ExitUnreachable || !strings.Contains(out, "FAIL strict database: ") || !strings.Contains(out, setting+": off") ||
			!strings.Contains(out, "ok   lax database: answers") || !strings.Contains(out, "warning: "+setting+": off") {
			t.Errorf("with %s off --check exits %d and says\n%s", setting, code, out)
		}
		mend(own, setting)
	}
	own.Exec("ALTER TABLE strict.t_outbox_event SET UNLOGGED")
	if code, out, _ := run(t, "serve", "-c", config, "--check"); code != cli.ExitUnreachable || !strings.Contains(out, "unlogged_tables: t_outbox_event") {
		t.Errorf("with an unlogged table --check exits %d and says\n%s", code, out)
	}
}

func TestASQLiteFileInMemoryIsNotRelayedUnlessTheSourceIsLax(t *testing.T) {
	const tmpfs = 0x01021994
	var at unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &at); err != nil || int64(at.Type) != tmpfs {
		unproved(t, "there is no file system in memory at /dev/shm")
	}
	dir, err := os.MkdirTemp("/dev/shm", "settle-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	config := writeConfig(t, dir, "embedded: {dir: "+dir+"/broker}\nsources:\n  strict: {db: '"+sqliteURL(filepath.Join(dir, "a.db"))+"', migrate: true}\n"+
		"  lax: {db: '"+sqliteURL(filepath.Join(dir, "b.db"))+"', migrate: true, durability: lax}\n")
	must(t, cli.ExitOK, "migrate", "-c", config)
	code, out, _ := run(t, "serve", "-c", config, "--check")
	if code != cli.ExitUnreachable || !strings.Contains(out, "FAIL strict database: ") || !strings.Contains(out, "ok   lax database: answers") || strings.Count(out, "file_system: memory") != 2 {
		t.Errorf("--check exits %d and says\n%s", code, out)
	}
}

// older takes the newest migration back.
func older(t *testing.T, at string) {
	t.Helper()
	s, err := dial.Schema(t.Context(), at, true)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	steps, err := s.Up(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Down(t.Context(), steps[len(steps)-1].Version-1); err != nil {
		t.Fatal(err)
	}
}

func TestAnOlderSchemaIsMigratedByServeOnlyWhereTheFileSaysSo(t *testing.T) {
	dir, broker := t.TempDir(), serveBroker(t)
	all := map[string]string{"file": sqliteURL(filepath.Join(dir, "file.db")), "may": sqliteURL(filepath.Join(dir, "may.db"))}
	if os.Getenv("SETTLE_TEST_POSTGRES") != "" {
		all["server"] = postgresSchema(t)
	}
	text := "sources:\n"
	for name, at := range all {
		older(t, at)
		text += "  " + name + ": {db: '" + at + "', broker: '" + broker + "', durability: lax"
		if name == "may" {
			text += ", migrate: true"
		}
		text += "}\n"
	}
	config := writeConfig(t, dir, text)
	if code, out, _ := run(t, "serve", "-c", config, "--check"); code != cli.ExitUnreachable || !strings.Contains(out, "FAIL file database") || !strings.Contains(out, "ok   may database: has the tables of an older program") {
		t.Errorf("--check exits %d and says\n%s", code, out)
	}
	s := serve(t, config)
	h := s.await(t, "asking for a migration", func(h server.Health) bool {
		for name := range all {
			if want := map[bool]server.State{true: server.StateLeading, false: server.StateUnreachable}[name == "may"]; h.Sources[name].State != want {
				return false
			}
		}
		return true
	})
	for name, at := range all {
		code, _, _ := run(t, "migrate", "status", "--db", at)
		if name == "may" {
			if code != cli.ExitOK {
				t.Errorf("of %s migrate status exits %d", name, code)
			}
			continue
		}
		if got := h.Sources[name]; code != cli.ExitFinding || got.What != "database" || !strings.Contains(got.Cause, "older than this program") || !strings.Contains(got.Cause, "settle migrate -c FILE") {
			t.Errorf("of %s migrate status exits %d, and serve says %+v", name, code, got)
		}
	}
	must(t, cli.ExitOK, "migrate", "-c", config)
	s.await(t, "ready", func(h server.Health) bool { return h.Ready })
	s.term(t)
}
