package cli_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/cli"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/server"
)

// asProducer is what SETTLE_TEST_MAIN says to a process that produces.
const asProducer = "producer"

// produce is a program that knows nothing of Settle but a table: it writes the
// events 1, 2, 3 … of its keys by SQL, so many a second, and rolls every fourth
// transaction back before it repeats it.
func produce(args []string) int {
	count, err1 := strconv.Atoi(args[3])
	rate, err2 := strconv.Atoi(args[4])
	err := errors.Join(err1, err2)
	if err == nil {
		err = insertEvents(args[0], args[1], args[2], count, time.Second/time.Duration(rate))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func insertEvents(driver, dsn, name string, count int, every time.Duration) error {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	insert := func(id string, i int) string {
		return fmt.Sprintf(`INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload) VALUES ('%s', 'thing.done', '%s-%d', '{"n":%d}')`, id, name, i%keysEach, i/keysEach+1)
	}
	began := time.Now()
	for i := range count {
		time.Sleep(time.Until(began.Add(time.Duration(i) * every))) // late ones are not waited for
		for _, id := range []string{fmt.Sprintf("rolled-back-%s-%d", name, i), fmt.Sprintf("%s-%d", name, i)} {
			keep := !strings.HasPrefix(id, "rolled-back")
			if !keep && i%4 != 0 {
				continue
			}
			tx, err := db.Begin()
			if err != nil {
				return err
			}
			if _, err := tx.Exec(insert(id, i)); err != nil {
				return err
			}
			end := tx.Rollback
			if keep {
				end = tx.Commit
			}
			if err := end(); err != nil {
				return err
			}
		}
	}
	return nil
}

// startProducers runs one process for each name.
func startProducers(t *testing.T, driver, dsn string, names []string, count, rate int) (wait func()) {
	t.Helper()
	var all []*exec.Cmd
	for _, name := range names {
		p := program(t, driver, dsn, name, strconv.Itoa(count), strconv.Itoa(rate))
		p.Env = append(p.Env, "SETTLE_TEST_MAIN="+asProducer)
		p.Stderr = os.Stderr
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return func() {
		for _, p := range all {
			if err := p.Wait(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

const keysEach = 5

// serving is a `settle serve` that runs.
type serving struct {
	cmd    *exec.Cmd
	health string
	log    *lockedBuffer
	ended  chan error
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func serve(t *testing.T, config string, env ...string) *serving {
	t.Helper()
	s := &serving{health: fmt.Sprintf("127.0.0.1:%d", freePort(t)), log: &lockedBuffer{}, ended: make(chan error, 1)}
	s.cmd = program(t, "serve", "-c", config, "--listen", s.health)
	s.cmd.Env = append(s.cmd.Env, env...)
	s.cmd.Stderr = s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.ended <- s.cmd.Wait() }()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // does nothing to one that has ended
		select {
		case <-s.ended:
		default:
		}
	})
	return s
}

// read returns what the health check says; an empty answer before it answers.
func (s *serving) read() (h server.Health, code int) {
	res, err := http.Get("http://" + s.health + "/readyz")
	if err != nil {
		return h, 0
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || json.Unmarshal(b, &h) != nil {
		return server.Health{}, 0
	}
	return h, res.StatusCode
}

// await polls the health check until it says what ok wants.
func (s *serving) await(t *testing.T, what string, ok func(server.Health) bool) server.Health {
	t.Helper()
	return s.awaitWithin(t, time.Minute, what, ok)
}

func (s *serving) awaitWithin(t *testing.T, limit time.Duration, what string, ok func(server.Health) bool) server.Health {
	t.Helper()
	late := time.After(limit)
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		h, _ := s.read()
		if ok(h) {
			tick.Stop()
			return h
		}
		select {
		case <-tick.C:
		case err := <-s.ended:
			s.ended <- err
			t.Fatalf("serve ended before it was %s: %v\n%s", what, err, s.log)
		case <-late:
			t.Fatalf("it is never %s; it is %+v\n%s", what, h, s.log)
		}
	}
}

// term ends it in order.
func (s *serving) term(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-s.ended; err != nil {
		t.Errorf("on SIGTERM serve ended with %v\n%s", err, s.log)
	}
}

func sourceIs(name string, state server.State) func(server.Health) bool {
	return func(h server.Health) bool { return h.Sources[name].State == state }
}

func writeConfig(t *testing.T, dir, text string) string {
	t.Helper()
	path := filepath.Join(dir, "settle.yml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func sqliteURL(path string) string { return (&url.URL{Scheme: "sqlite", Path: path}).String() }

func TestWhatPlainSQLInsertedReachesTheBrokerOnceInOrderThoughALeaderIsKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "order.db")
	// Programs that write to one file without a pause starve each other.
	deliverThoughALeaderIsKilled(t, sqliteURL(path), "sqlite", "file:"+path+"?_busy_timeout=60000&_txlock=immediate", 200)
}

func TestWhatPlainSQLInsertedIntoPostgreSQLReachesTheBrokerOnceInOrderThoughALeaderIsKilled(t *testing.T) {
	at := postgresSchema(t)
	deliverThoughALeaderIsKilled(t, at, "pgx", at, 200)
}

func deliverThoughALeaderIsKilled(t *testing.T, at, driver, dsn string, rate int) {
	dir, port := t.TempDir(), freePort(t)
	config := writeConfig(t, dir, fmt.Sprintf("embedded: {dir: %s, port: %d}\nsources:\n  order: {db: '${SETTLE_TEST_DB}', migrate: true, relay: {lease_ttl: 2s}}\n", filepath.Join(dir, "broker"), port))
	env := "SETTLE_TEST_DB=" + at
	first := serve(t, config, env)
	first.await(t, "leading", sourceIs("order", server.StateLeading))
	second := serve(t, config, env)
	second.await(t, "standing by", sourceIs("order", server.StateStandingBy))

	const each = 400
	produced := startProducers(t, driver, dsn, []string{"a", "b"}, each, rate)
	first.await(t, "sending", func(h server.Health) bool { return h.Sources["order"].Published > 50 })
	// Crash here: of the leader, and of the broker that it serves.
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-first.ended
	produced()
	// Whichever is quicker leads.
	leads, stands := serve(t, config, env), second
	ended := time.Now()
	leads.await(t, "ready", func(h server.Health) bool { return h.Ready })
	if sourceIs("order", server.StateLeading)(stands.await(t, "ready", func(h server.Health) bool { return h.Ready })) {
		leads, stands = stands, leads
	}
	leads.await(t, "done", func(h server.Health) bool {
		s := h.Sources["order"]
		return h.Ready && s.State == server.StateLeading && s.Backlog != nil && s.Backlog.Asked.After(ended) && s.Backlog.Pending+s.Backlog.Parked == 0
	})
	token, err := os.ReadFile(filepath.Join(dir, "broker", "token"))
	if err != nil {
		t.Fatal(err)
	}
	checkLog(t, fmt.Sprintf("nats://%s@127.0.0.1:%d", strings.TrimSpace(string(token)), port), 2*each)
	// One that ends in order hands over at once.
	leads.term(t)
	stands.await(t, "leading", func(h server.Health) bool {
		return h.Sources["order"].State == server.StateLeading && h.Embedded.State == server.StateServing
	})
	stands.term(t)
}

// checkLog reads the broker's log: each of n events is there, those of a key
// come the first time in order, and none that was rolled back.
func checkLog(t *testing.T, at string, n int) {
	t.Helper()
	tap, err := dial.Tap(at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tap.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen, next := map[string]bool{}, map[string]int{}
	err = tap.ReadAll(ctx, settle.DefaultTopic, func(r settle.Record) error {
		e := r.Event
		if seen[e.ID] {
			return nil
		}
		seen[e.ID] = true
		next[e.AggregateID]++
		if want := fmt.Sprintf(`{"n":%d}`, next[e.AggregateID]); string(e.Payload) != want || strings.HasPrefix(e.ID, "rolled-back") {
			t.Errorf("event %s of key %s says %s, want %s", e.ID, e.AggregateID, e.Payload, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) != n {
		t.Errorf("the broker has %d events, want %d", len(seen), n)
	}
}

func TestASourceThatIsAwayStopsNoOtherAndIsTakenWhenItComes(t *testing.T) {
	dir := t.TempDir()
	gone := filepath.Join(dir, "later")
	config := writeConfig(t, dir, fmt.Sprintf("embedded: {dir: %s, port: %d}\nsources:\n  order: {db: %q, migrate: true}\n  gone: {db: %q, migrate: true}\n",
		filepath.Join(dir, "broker"), freePort(t), sqliteURL(filepath.Join(dir, "order.db")), sqliteURL(filepath.Join(gone, "x.db"))))
	s := serve(t, config)
	h := s.await(t, "leading one", func(h server.Health) bool {
		return h.Sources["order"].State == server.StateLeading && h.Sources["gone"].State == server.StateUnreachable
	})
	if g := h.Sources["gone"]; h.Ready || g.What != "database" || !strings.Contains(g.Cause, "does not exist") {
		t.Errorf("with one source away it says %+v", h)
	}
	if _, code := s.read(); code != http.StatusServiceUnavailable {
		t.Errorf("readyz answers %d", code)
	}
	if res, err := http.Get("http://" + s.health + "/healthz"); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("healthz answers %v, %v", res, err)
	}
	if code, out, _ := run(t, "serve", "-c", config, "--check"); code != cli.ExitUnreachable || !strings.Contains(out, "FAIL gone database") || !strings.Contains(out, "ok   order database: answers") || !strings.Contains(out, "served by another") {
		t.Errorf("--check exits %d and says\n%s", code, out)
	}
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	s.await(t, "ready", func(h server.Health) bool { return h.Ready && h.Sources["gone"].State == server.StateLeading })
	s.term(t)
	if n := strings.Count(s.log.String(), "database unreachable"); n != 1 {
		t.Errorf("the outage is told %d times:\n%s", n, s.log)
	}
}

func TestAnAddressInUseIsSaidBeforeAnythingBegins(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	db := filepath.Join(dir, "order.db")
	config := writeConfig(t, dir, fmt.Sprintf("listen: %q\nembedded: {dir: %s}\nsources:\n  order: {db: %q, migrate: true}\n", l.Addr(), filepath.Join(dir, "broker"), sqliteURL(db)))
	code, _, errs := run(t, "serve", "-c", config)
	if _, err := os.Stat(db); code != cli.ExitUnreachable || !strings.Contains(errs, "--listen") || err == nil {
		t.Errorf("exit %d, %q; the database was made: %t", code, errs, err == nil)
	}
}
