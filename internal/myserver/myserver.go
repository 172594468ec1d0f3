// Package myserver gives a test MariaDB servers of its own, which it may stop,
// kill and promote. scripts/services starts them.
package myserver

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/settlemq/settle/internal/services"
)

// Server is one that runs until the test ends.
type Server struct {
	*services.Service
	t testing.TB
}

// Own starts a server. Where SETTLE_TEST_MYSQL is not set, the test is skipped,
// or fails in CI.
func Own(t testing.TB) *Server {
	t.Helper()
	return start(t, "mariadb")[0]
}

func start(t testing.TB, names ...string) (all []*Server) {
	t.Helper()
	services.URL(t, "SETTLE_TEST_MYSQL", "mariadb")
	for _, s := range services.Up(t, names) {
		all = append(all, &Server{s, t})
	}
	return all
}

// Database makes a database, and a user who may do in it whatever he likes and
// see what others do, but nothing more: a server that is read only is so for
// him. It returns the URL with which he comes.
func (s *Server) Database(name string) string {
	s.t.Helper()
	s.Exec("CREATE DATABASE "+name, "CREATE USER app@'127.0.0.1' IDENTIFIED BY 'app'", "GRANT ALL ON "+name+".* TO app@'127.0.0.1'", "GRANT PROCESS ON *.* TO app@'127.0.0.1'")
	u := s.At()
	u.User, u.Path = url.UserPassword("app", "app"), "/"+name
	return u.String()
}

// Set adds lines to the server's file, and starts it anew.
func (s *Server) Set(lines ...string) {
	s.t.Helper()
	file, err := os.OpenFile(filepath.Join(s.Dir(), "my.cnf"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = file.WriteString(strings.Join(lines, "\n") + "\n")
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.Kill()
	s.Start()
}

// Open returns a connection of who may do all. It is closed when the test ends.
func (s *Server) Open(ctx context.Context) (*sql.Conn, error) {
	at := s.At()
	cfg := driver.NewConfig()
	cfg.Net, cfg.Addr, cfg.User = "tcp", at.Host, at.User.Username()
	cfg.Passwd, _ = at.User.Password()
	cfg.Timeout = 5 * time.Second
	cfg.Logger = &driver.NopLogger{}
	c, err := driver.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(c)
	db.SetMaxIdleConns(-1) // one that is given back is closed
	s.t.Cleanup(func() { _ = db.Close() })
	return db.Conn(ctx)
}

// Exec runs statements, each by itself, in one session.
func (s *Server) Exec(queries ...string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := s.Open(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for _, q := range queries {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			s.t.Fatalf("%s: %v", q, err)
		}
	}
}

// Await asks a question that answers with a truth value until it is true.
func (s *Server) Await(question string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := s.Open(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for tick := time.NewTicker(120 * time.Millisecond); ; {
		var yes bool
		if err := conn.QueryRowContext(ctx, question).Scan(&yes); err != nil {
			s.t.Fatalf("%s: %v", question, err)
		}
		if yes {
			tick.Stop()
			return
		}
		<-tick.C
	}
}

// WaitFor lets commits wait until the replica has them.
func (s *Server) WaitFor(replica *Server) {
	s.t.Helper()
	s.Exec("SET GLOBAL rpl_semi_sync_master_timeout = 3600000", "SET GLOBAL rpl_semi_sync_master_enabled = ON")
	// It says so when it connects.
	replica.Exec("STOP SLAVE IO_THREAD", "START SLAVE IO_THREAD")
	s.Await("SELECT VARIABLE_VALUE > 0 FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Rpl_semi_sync_master_clients'")
}

// Follows waits until a replica has what its primary has written.
func (s *Server) Follows(primary *Server) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := primary.Open(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	var at string
	if err := conn.QueryRowContext(ctx, "SELECT @@gtid_binlog_pos").Scan(&at); err != nil {
		s.t.Fatal(err)
	}
	s.Await("SELECT MASTER_GTID_WAIT('" + at + "', 30) = 0")
}

// Promote lets a replica take over, with all that it has received.
func (s *Server) Promote() {
	s.t.Helper()
	s.Exec("STOP SLAVE IO_THREAD")
	s.awaitApplied()
	s.Exec("STOP SLAVE", "RESET SLAVE ALL", "SET GLOBAL read_only = OFF")
}

func (s *Server) awaitApplied() {
	s.t.Helper()
	for until := time.Now().Add(time.Minute); !strings.Contains(s.replication("Slave_SQL_Running_State"), "has read all relay log"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			s.t.Fatalf("the replica does not come to the end: it says %q, %q", s.replication("Slave_SQL_Running_State"), s.replication("Last_SQL_Error"))
		}
	}
}

// replication is one column of what a replica says of itself.
func (s *Server) replication(column string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := s.Open(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	rows, err := conn.QueryContext(ctx, "SHOW SLAVE STATUS")
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	names, err := rows.Columns()
	if err != nil || !rows.Next() {
		s.t.Fatalf("it is no replica: %v, %v", err, rows.Err())
	}
	values, into := make([]sql.NullString, len(names)), make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	if err := rows.Scan(into...); err != nil {
		s.t.Fatal(err)
	}
	for i, name := range names {
		if name == column {
			return values[i].String
		}
	}
	s.t.Fatalf("a replica says nothing of %s", column)
	return ""
}
