package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/mysql"
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
func (s *ownServer) open(flush int) *mysql.Store {
	s.t.Helper()
	first := mysql.OpenForTest(s.t, s.url.String(), mysql.Config{})
	name := strings.ReplaceAll("cut_"+settle.NewID(), "-", "")
	for _, q := range []string{"CREATE DATABASE " + name, "SET GLOBAL sync_binlog = 0", fmt.Sprint("SET GLOBAL innodb_flush_log_at_trx_commit = ", flush)} {
		if _, err := first.DB().ExecContext(s.t.Context(), q); err != nil {
			s.t.Fatal(err)
		}
	}
	u := *s.url
	u.Path = "/" + name
	return mysql.OpenForTest(s.t, u.String(), mysql.Config{})
}

// hasty believes that all it reads is on the disk.
type hasty struct{ relay.Store }

func (h hasty) Poll(ctx context.Context, q relay.PollQuery) (relay.Page, error) {
	p, err := h.Store.Poll(ctx, q)
	p.NotDurable = false
	return p, err
}

// cutPower has programs write whose commits do not wait for the disk, kills the
// server again and again under the relay, and returns what was published and is
// not in the table, and what is in the table and was never published.
func (s *ownServer) cutPower(flush, times int, log func(*mysql.Store) relay.Store) (vanished, missing []string) {
	s.t.Helper()
	store := s.open(flush)
	b := memory.New(memory.Config{})
	defer func() { _ = b.Close() }()
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	r := relay.New(log(store), b, relay.Config{LeaseTTL: 3 * time.Second})
	go func() { ended <- r.Run(ctx) }()
	for cut := range times {
		if _, err := store.DB().ExecContext(ctx, fmt.Sprint("SET GLOBAL sync_binlog = 0, GLOBAL innodb_flush_log_at_trx_commit = ", flush)); err != nil {
			s.t.Fatal(err)
		}
		stop := make(chan struct{})
		var group sync.WaitGroup
		for w := range 4 {
			group.Go(func() { appendHastily(ctx, store, fmt.Sprintf("%d-%d", cut, w), stop) })
		}
		time.Sleep(700 * time.Millisecond)
		s.services("kill", "mariadb")
		close(stop)
		group.Wait()
		s.services("start", "mariadb")
		for until := time.Now().Add(30 * time.Second); store.DB().PingContext(ctx) != nil && time.Now().Before(until); {
			time.Sleep(10 * time.Millisecond)
		}
	}
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		vanished, missing = compare(s.t, store, b.Log(settle.DefaultTopic))
		if len(missing) == 0 || time.Now().After(until) {
			break
		}
	}
	cancel()
	if err := <-ended; err != nil {
		s.t.Errorf("relay: %v", err)
	}
	return vanished, missing
}

// appendHastily ends with the first error: the server is gone.
func appendHastily(ctx context.Context, s *mysql.Store, name string, stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		if appendOne(ctx, s, &settle.Event{ID: fmt.Sprintf("%s-%d", name, i), Type: "a", AggregateID: name, Payload: []byte("{}")}) != nil {
			return
		}
	}
}

func appendOne(ctx context.Context, s *mysql.Store, e *settle.Event) error {
	tx, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := s.Append(ctx, tx, e); err != nil {
		return err
	}
	return tx.Commit()
}

func compare(t *testing.T, s *mysql.Store, log []settle.Record) (vanished, missing []string) {
	t.Helper()
	rows, err := s.DB().QueryContext(t.Context(), "SELECT event_id FROM t_outbox_event")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	there := map[string]bool{}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		there[id] = true
	}
	if err := rows.Err(); err != nil && !errors.Is(err, sql.ErrConnDone) {
		t.Fatal(err)
	}
	published := map[string]bool{}
	for _, r := range log {
		if published[r.Event.ID] = true; !there[r.Event.ID] {
			vanished = append(vanished, r.Event.ID)
		}
	}
	for id := range there {
		if !published[id] {
			missing = append(missing, id)
		}
	}
	return vanished, missing
}

// With 2, a commit is handed to the system after it can be seen: a server that
// is killed in between forgets it. With 0 it does so for a second.
func TestNothingIsPublishedThatAKilledServerTakesBack(t *testing.T) {
	s := startOwn(t)
	vanished, missing := s.cutPower(2, 6, func(m *mysql.Store) relay.Store { return m.Log() })
	if len(vanished) > 0 || len(missing) > 0 {
		t.Errorf("published and gone: %q; never published: %q", vanished, missing)
	}
	for range 5 {
		if vanished, _ := s.cutPower(0, 2, func(m *mysql.Store) relay.Store { return hasty{m.Log()} }); len(vanished) > 0 {
			return
		}
	}
	t.Error("a relay that does not look whether a row is on the disk loses nothing either: the test proves nothing")
}
