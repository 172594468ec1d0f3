// Package pgserver gives a test PostgreSQL servers of its own, which it may
// stop, kill and promote. scripts/services starts them.
package pgserver

import (
	"context"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server is one that runs until the test ends.
type Server struct {
	t    testing.TB
	env  []string
	dir  string
	name string
	url  *url.URL
}

// Own starts the service that SETTLE_TEST_SERVICE names, postgres without it.
// Where SETTLE_TEST_POSTGRES is not set, the test is skipped, or fails in CI.
func Own(t testing.TB) *Server {
	t.Helper()
	name := os.Getenv("SETTLE_TEST_SERVICE")
	if name == "" {
		name = "postgres"
	}
	return start(t, name)[0]
}

// OwnPair starts a primary and a standby that follows it. Nobody waits for the
// standby.
func OwnPair(t testing.TB) (primary, standby *Server) {
	t.Helper()
	both := start(t, "postgres-primary", "postgres-replica")
	return both[0], both[1]
}

func start(t testing.TB, names ...string) (all []*Server) {
	t.Helper()
	if os.Getenv("SETTLE_TEST_POSTGRES") == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("SETTLE_TEST_POSTGRES is not set: export it with the URL that `scripts/services up postgres` prints")
		}
		t.Skip("SKIPPED, NOTHING OF THIS IS PROVED: SETTLE_TEST_POSTGRES is not set; `scripts/services up postgres` prints its value")
	}
	dir := t.TempDir()
	// The server runs as another user where the test is run by root.
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "SETTLE_SERVICES_DIR="+dir)
	for _, name := range append(names, "pgbouncer", "pgbouncer18") {
		env = append(env, "SETTLE_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_"))+"_PORT="+freePort(t))
	}
	last := &Server{t: t, env: env, name: names[len(names)-1], dir: dir}
	t.Cleanup(func() { last.services("down") })
	for line := range strings.Lines(last.services("up", last.name)) {
		name, at, _ := strings.Cut(strings.TrimSpace(line), " ")
		u, err := url.Parse(at)
		if err != nil {
			t.Fatal("what scripts/services up prints can't be read")
		}
		all = append(all, &Server{t: t, env: env, dir: dir, name: name, url: u})
	}
	if len(all) != len(names) {
		t.Fatalf("scripts/services up %s prints %d lines, want %d", last.name, len(all), len(names))
	}
	return all
}

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

func (s *Server) services(args ...string) string {
	s.t.Helper()
	cmd := exec.Command(script(s.t), args...)
	cmd.Env = s.env
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		s.t.Errorf("scripts/services %v: %v\n%s", args, err, said.String())
	}
	return string(out)
}

// script finds the checkout's script from any package's folder.
func script(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		path := filepath.Join(dir, "scripts", "services")
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Fatal("there is no scripts/services above the test's folder")
	return ""
}

// URL returns how a schema of the server's own database is reached; an empty
// name is the superuser's first one.
func (s *Server) URL(schema string) string {
	u := *s.url
	if schema != "" {
		u.RawQuery = url.Values{"search_path": {schema}}.Encode()
	}
	return u.String()
}

// Host returns host:port.
func (s *Server) Host() string { return s.url.Host }

// Either returns how a schema is reached on whichever of two servers can be
// written to.
func (s *Server) Either(other *Server, schema string) string {
	u := *s.url
	u.Host += "," + other.url.Host
	u.RawQuery = url.Values{"target_session_attrs": {"read-write"}, "search_path": {schema}}.Encode()
	return u.String()
}

// DataDir is where the server keeps its data.
func (s *Server) DataDir() string { return filepath.Join(s.dir, s.name, "data") }

// PIDs returns the processes of the server, the first of them first.
func (s *Server) PIDs() (all []int) {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.DataDir(), "postmaster.pid"))
	if err != nil {
		s.t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(b), "\n")
	out, err := exec.Command("pgrep", "-P", first).Output()
	if err != nil {
		s.t.Fatalf("list the server's processes: %v", err)
	}
	for _, text := range append([]string{first}, strings.Fields(string(out))...) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, pid)
	}
	return all
}

// AwaitAnew waits until the server has ended all sessions by itself and answers
// again, as it does when a process of it has failed.
func (s *Server) AwaitAnew() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url.String())
	for err == nil {
		time.Sleep(20 * time.Millisecond)
		err = conn.Ping(ctx)
	}
	for {
		conn, err := pgx.Connect(ctx, s.url.String())
		if err == nil {
			_ = conn.Close(ctx)
			return
		}
		if ctx.Err() != nil {
			s.t.Fatalf("the server does not come back: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Kill ends the server at once, as a power cut does.
func (s *Server) Kill() { s.t.Helper(); s.services("kill", s.name) }

// Start brings it back with its data, and returns when it answers.
func (s *Server) Start() { s.t.Helper(); s.services("start", s.name) }

// Pause stops it from running and answering until Resume.
func (s *Server) Pause() { s.t.Helper(); s.services("pause", s.name) }

// Resume lets it go on.
func (s *Server) Resume() { s.t.Helper(); s.services("resume", s.name) }

// Beside starts another service that works with this server, and returns its
// URL.
func (s *Server) Beside(name string) *url.URL {
	s.t.Helper()
	_, at, _ := strings.Cut(strings.TrimSpace(s.services("up", name)), " ")
	u, err := url.Parse(at)
	if err != nil {
		s.t.Fatal("what scripts/services up prints can't be read")
	}
	return u
}

// Exec runs statements, each by itself.
func (s *Server) Exec(queries ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url.String())
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, q := range queries {
		if _, err := conn.Exec(ctx, q); err != nil {
			s.t.Fatalf("%s: %v", q, err)
		}
	}
}

// Await asks a question that answers with a truth value until it is true.
func (s *Server) Await(question string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.url.String())
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		var yes bool
		if err := conn.QueryRow(ctx, question).Scan(&yes); err != nil {
			s.t.Fatalf("%s: %v", question, err)
		}
		if yes {
			tick.Stop()
			return
		}
		<-tick.C
	}
}
