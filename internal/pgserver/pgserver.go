// Package pgserver gives a test PostgreSQL servers of its own, which it may
// stop, kill and promote. scripts/services starts them.
package pgserver

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/internal/services"
)

// Server is one that runs until the test ends.
type Server struct {
	*services.Service
	t testing.TB
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
	services.URL(t, "SETTLE_TEST_POSTGRES", "postgres")
	for _, s := range services.Up(t, names, "pgbouncer", "pgbouncer18") {
		all = append(all, &Server{s, t})
	}
	return all
}

// URL returns how a schema of the server's own database is reached; an empty
// name is the superuser's first one.
func (s *Server) URL(schema string) string {
	u := s.At()
	if schema != "" {
		u.RawQuery = url.Values{"search_path": {schema}}.Encode()
	}
	return u.String()
}

// Either returns how a schema is reached on whichever of two servers can be
// written to.
func (s *Server) Either(other *Server, schema string) string {
	u := s.At()
	u.Host += "," + other.Host()
	u.RawQuery = url.Values{"target_session_attrs": {"read-write"}, "search_path": {schema}}.Encode()
	return u.String()
}

// DataDir is where the server keeps its data.
func (s *Server) DataDir() string { return filepath.Join(s.Dir(), "data") }

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
	conn, err := pgx.Connect(ctx, s.At().String())
	for err == nil {
		time.Sleep(20 * time.Millisecond)
		err = conn.Ping(ctx)
	}
	for {
		conn, err := pgx.Connect(ctx, s.At().String())
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

// Exec runs statements, each by itself.
func (s *Server) Exec(queries ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.At().String())
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
	conn, err := pgx.Connect(ctx, s.At().String())
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
