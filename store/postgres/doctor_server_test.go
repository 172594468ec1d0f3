package postgres

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/settlemq/settle/doctor"
)

// ownServer is a server of one test, for settings that hold for all of it.
type ownServer struct {
	t   *testing.T
	dir string
	env []string
	url string
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

func startServer(t *testing.T) *ownServer {
	t.Helper()
	DatabaseForTest(t) // skipped where there are no servers
	// Its user must be able to enter, which a folder of the test's own forbids.
	dir, err := os.MkdirTemp("", "settle-doctor-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s := &ownServer{t: t, dir: dir, env: append(os.Environ(), "SETTLE_SERVICES_DIR="+dir, "SETTLE_POSTGRES_PORT="+freePort(t), "SETTLE_PGBOUNCER_PORT="+freePort(t))}
	t.Cleanup(func() {
		s.services("down")
		_ = os.RemoveAll(dir)
	})
	s.url = s.up("postgres")
	return s
}

// services runs scripts/services for this server, and returns what it prints.
func (s *ownServer) services(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("../../scripts/services", args...)
	cmd.Env = s.env
	var said strings.Builder
	cmd.Stderr = &said
	// A server that inherits the pipe would keep Output waiting.
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("scripts/services %v: %v\n%s", args, err, said.String())
	}
	return string(out)
}

func (s *ownServer) up(name string) (url string) {
	s.t.Helper()
	_, url, ok := strings.Cut(strings.TrimSpace(s.services("up", name)), " ")
	if !ok {
		s.t.Fatalf("scripts/services up %s prints no URL", name)
	}
	return url
}

func (s *ownServer) restart() {
	s.t.Helper()
	s.services("kill", "postgres")
	s.services("start", "postgres")
}

func (s *ownServer) want(check string, verdict doctor.Verdict, found string) doctor.Finding {
	s.t.Helper()
	f := diagnose(s.t, s.url, DoctorConfig{})[check]
	if f.Verdict != verdict || !strings.Contains(f.Found, found) {
		s.t.Errorf("want %s, %s; found %+v", verdict, found, f)
	}
	return f
}

// reloaded waits until a new session has what a reload has brought.
func (s *ownServer) reloaded(check string, verdict doctor.Verdict) {
	s.t.Helper()
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if diagnose(s.t, s.url, DoctorConfig{})[check].Verdict == verdict {
			return
		}
	}
	s.t.Errorf("%s never becomes %s", check, verdict)
}

func TestADoctorFindsWhatIsWrongWithAServer(t *testing.T) {
	s := startServer(t)
	OpenForTest(t, s.url, Config{})
	for _, f := range diagnose(t, s.url, DoctorConfig{}) {
		if f.Verdict != doctor.OK {
			t.Errorf("of a new server: %+v", f)
		}
	}
	for _, c := range []struct {
		check   string
		verdict doctor.Verdict
		setting string
	}{
		{"fsync", doctor.Bad, "fsync = off"},
		{"full_page_writes", doctor.Bad, "full_page_writes = off"},
		{"autovacuum", doctor.Warn, "autovacuum = off"},
		{"synchronous_commit", doctor.Bad, "synchronous_commit = off"},
	} {
		execute(t, s.url, "ALTER SYSTEM SET "+c.setting)
		execute(t, s.url, "SELECT pg_reload_conf()")
		s.reloaded(c.check, c.verdict)
		for statement := range strings.SplitSeq(diagnose(t, s.url, DoctorConfig{})[c.check].Fix, ";") {
			execute(t, s.url, statement)
		}
		s.reloaded(c.check, doctor.OK)
	}
	execute(t, s.url, "ALTER ROLE postgres SET synchronous_commit = 'local'")
	execute(t, s.url, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
	execute(t, s.url, "SELECT pg_reload_conf()")
	s.reloaded("synchronous_standby", doctor.Bad)
	s.want("synchronous_standby", doctor.Bad, "commits wait for nobody")
	s.want("synchronous_commit", doctor.Warn, "local")
	execute(t, s.url, "ALTER ROLE postgres RESET synchronous_commit")
	execute(t, s.url, "ALTER SYSTEM RESET synchronous_standby_names")
	execute(t, s.url, "SELECT pg_reload_conf()")
	s.reloaded("synchronous_standby", doctor.OK)
	s.slots()
	s.encodings()
	s.afterRestart()
	s.asReplica()
}

func (s *ownServer) slots() {
	execute(s.t, s.url, "SELECT pg_create_physical_replication_slot('unread', true)")
	f := s.want("replication_slots", doctor.Warn, "slot unread is not read")
	_, drop, _ := strings.Cut(f.Fix, ", or ")
	execute(s.t, s.url, drop)
	s.want("replication_slots", doctor.OK, "none")
}

func (s *ownServer) encodings() {
	execute(s.t, s.url, "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
	at := strings.TrimSuffix(s.url, "/postgres") + "/latin"
	if f := diagnose(s.t, at, DoctorConfig{})["encoding"]; f.Verdict != doctor.Bad || f.Found != "LATIN1" {
		s.t.Errorf("found %+v", f)
	}
	execute(s.t, s.url, "ALTER DATABASE latin ALLOW_CONNECTIONS false")
	if _, err := NewDoctor(at, DoctorConfig{}).Check(s.t.Context()); err == nil || !strings.Contains(err.Error(), "not currently accepting connections") {
		s.t.Errorf("a database that lets nobody in: %v", err)
	}
}

func (s *ownServer) afterRestart() {
	for _, setting := range []string{"wal_level = minimal", "max_wal_senders = 0", "max_connections = 20"} {
		execute(s.t, s.url, "ALTER SYSTEM SET "+setting)
	}
	s.restart()
	s.want("wal_level", doctor.Warn, "minimal")
	s.want("connections", doctor.Bad, "the server allows 17 connections")
	for _, setting := range []string{"wal_level", "max_wal_senders", "max_connections"} {
		execute(s.t, s.url, "ALTER SYSTEM RESET "+setting)
	}
	s.restart()
	s.want("wal_level", doctor.OK, "logical")
	s.want("connections", doctor.OK, "free")
}

func (s *ownServer) asReplica() {
	signal := filepath.Join(s.dir, "postgres", "data", "standby.signal")
	if err := os.WriteFile(signal, nil, 0o644); err != nil {
		s.t.Fatal(err)
	}
	s.restart()
	if f := s.want("writable", doctor.Bad, "read-only replica"); !strings.Contains(f.Fix, "primary") {
		s.t.Errorf("found %+v", f)
	}
}

func TestADoctorKnowsAPoolerAndWhatItKeepsTogether(t *testing.T) {
	if _, err := exec.LookPath("pgbouncer"); err != nil {
		if os.Getenv("SETTLE_TEST_ALL") != "" {
			t.Fatal("pgbouncer is not installed: `scripts/services up pgbouncer` does it for root")
		}
		t.Skip("SKIPPED, NOTHING OF THIS IS PROVED: pgbouncer is not installed")
	}
	s := startServer(t)
	OpenForTest(t, s.url, Config{})
	s.url = s.up("pgbouncer")
	s.want("pooler", doctor.OK, "a pooler that keeps transactions together")
	for name, f := range diagnose(t, s.url, DoctorConfig{}) {
		if f.Verdict != doctor.OK && !slices.Contains(ofTheServer(), name) {
			t.Errorf("through a pooler: %+v", f)
		}
	}
	if _, err := NewDoctor(s.url+"?search_path=other", DoctorConfig{}).Check(t.Context()); err == nil || !strings.Contains(err.Error(), "ignore_startup_parameters") {
		t.Errorf("a setting that the pooler does not know: %v", err)
	}
	// By its signal it reads its settings again.
	file := filepath.Join(s.dir, "pgbouncer", "pgbouncer.ini")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(b), "pool_mode = transaction", "pool_mode = statement\nignore_startup_parameters = search_path", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	b, err = os.ReadFile(filepath.Join(s.dir, "pgbouncer", "pid"))
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(b), &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.reloaded("pooler", doctor.Bad)
	s.want("pooler", doctor.Bad, "refuses transactions")
	// The path is swallowed now.
	f := diagnose(t, s.url+"?search_path=pg_catalog", DoctorConfig{})["schema"]
	if f.Verdict != doctor.Bad || !strings.Contains(f.Found, "a pooler has dropped it") {
		t.Errorf("found %+v", f)
	}
}
