package mysql_test

import (
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/mysql"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

// ownServer is one that the test may kill.
type ownServer struct {
	t   *testing.T
	env []string
	url *url.URL
}

func startOwn(t *testing.T) *ownServer {
	t.Helper()
	if os.Getenv("SETTLE_TEST_MYSQL") == "" && os.Getenv("CI") == "" {
		t.Skip("SKIPPED, NOTHING OF THIS IS PROVED: SETTLE_TEST_MYSQL is not set; `scripts/services up mariadb` prints its value")
	}
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("kills a server of its own: a long test, run by scripts/test all")
	}
	dir := t.TempDir()
	// The server runs as another user where the test is run by root.
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s := &ownServer{t: t, env: append(os.Environ(), "SETTLE_SERVICES_DIR="+dir, "SETTLE_MARIADB_PORT="+port)}
	t.Cleanup(func() { s.services("down") })
	_, at, _ := strings.Cut(strings.TrimSpace(s.services("up", "mariadb")), " ")
	if s.url, err = url.Parse(at); err != nil {
		t.Fatal("what scripts/services up prints can't be read")
	}
	return s
}

func (s *ownServer) services(args ...string) string {
	s.t.Helper()
	cmd := exec.Command(filepath.Join("..", "..", "scripts", "services"), args...)
	cmd.Env = s.env
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		s.t.Errorf("scripts/services %v: %v\n%s", args, err, said.String())
	}
	return string(out)
}

// open makes a database on the server, whose commits reach the disk as
// innodb_flush_log_at_trx_commit says, without a binary log's help.
func (s *ownServer) open(t testing.TB, flush int) concurrent.Mortal[*sql.Tx] {
	t.Helper()
	first := mysql.OpenForTest(t, s.url.String(), mysql.Config{})
	name := strings.ReplaceAll("cut_"+settle.NewID(), "-", "")
	if _, err := first.DB().ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	setFlush := func() {
		if _, err := first.DB().ExecContext(t.Context(), fmt.Sprint("SET GLOBAL sync_binlog = 0, GLOBAL innodb_flush_log_at_trx_commit = ", flush)); err != nil {
			t.Fatal(err)
		}
	}
	setFlush()
	u := *s.url
	u.Path = "/" + name
	return concurrent.Mortal[*sql.Tx]{
		Outbox: written(t, mysql.OpenForTest(t, u.String(), mysql.Config{})),
		Kill:   func() { s.services("kill", "mariadb") },
		Start: func() {
			s.services("start", "mariadb")
			for until := time.Now().Add(time.Minute); first.DB().PingContext(t.Context()) != nil && time.Now().Before(until); {
				time.Sleep(10 * time.Millisecond)
			}
			setFlush()
		},
	}
}

// With 2, a commit is handed to the system after it can be seen: a server that
// is killed in between forgets it. With 0 it does so for a second.
func TestNothingIsPublishedThatAPowerCutTakesBack(t *testing.T) {
	s := startOwn(t)
	concurrent.NothingTakenBack(t, func(t testing.TB, careless bool) concurrent.Mortal[*sql.Tx] {
		if careless {
			return s.open(t, 0)
		}
		return s.open(t, 2)
	})
}
