package server_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/server"
)

type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start runs a server until the test ends, or stop is called.
func start(t *testing.T, cfg server.Config) (s *server.Server, log *logged, stop func()) {
	t.Helper()
	log = &logged{}
	cfg.Logger = slog.New(slog.NewTextHandler(log, nil))
	s = server.New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(stop)
	return s, log, stop
}

func await(t *testing.T, s *server.Server, log *logged, what string, ok func(server.Health) bool) server.Health {
	t.Helper()
	late := time.After(30 * time.Second)
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		h := s.Health()
		if ok(h) {
			tick.Stop()
			return h
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("it is never %s: %+v\n%s", what, h, log)
		}
	}
}

func is(name string, state server.State, what string) func(server.Health) bool {
	return func(h server.Health) bool { return h.Sources[name].State == state && h.Sources[name].What == what }
}

func database(t *testing.T) (at string, db *dial.Database) {
	t.Helper()
	at = (&url.URL{Scheme: "sqlite", Path: filepath.Join(t.TempDir(), "order.db")}).String()
	db, err := dial.Store(t.Context(), at, dial.StoreConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return at, db
}

func insert(t *testing.T, db *dial.Database, id string) {
	t.Helper()
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), `INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload) VALUES (?, 'x', 'k', '{}')`, id); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// broker serves one at a port until stop is called.
func broker(t *testing.T, dir, token string, port int) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- dial.ServeBroker(ctx, dial.ServerConfig{Dir: dir, Token: token, Port: port, Ready: func(u string) { ready <- u }})
	}()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(stop)
	return stop
}

func port(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func TestAnOutageOfTheBrokerIsToldOnceAndNoSecretIsShown(t *testing.T) {
	at, db := database(t)
	p, dir := port(t), t.TempDir()
	endWrong := broker(t, dir, "another", p)
	s, log, stop := start(t, server.Config{Sources: map[string]server.SourceConfig{
		"order": {DB: at, Broker: fmt.Sprintf("nats://%s@127.0.0.1:%d", canary, p), Relay: server.RelayConfig{LeaseTTL: time.Second}},
	}})
	h := await(t, s, log, "refused", is("order", server.StateUnreachable, "broker"))
	if h.Ready || h.Sources["order"].Cause == "" {
		t.Errorf("with a wrong token it stands so: %+v", h)
	}
	endWrong()
	endRight := broker(t, dir, canary, p)
	await(t, s, log, "leading", is("order", server.StateLeading, ""))
	insert(t, db, "e-1")
	await(t, s, log, "sending", func(h server.Health) bool { return h.Sources["order"].Published == 1 })
	endRight()
	await(t, s, log, "unreachable", is("order", server.StateUnreachable, "broker"))
	insert(t, db, "e-2")
	await(t, s, log, "counting", func(h server.Health) bool {
		b := h.Sources["order"].Backlog
		return b != nil && b.Pending == 1 && b.OldestAge > 0
	})
	broker(t, dir, canary, p)
	h = await(t, s, log, "caught up", func(h server.Health) bool {
		return h.Ready && h.Sources["order"].Published == 2 && h.Sources["order"].Backlog.Pending == 0
	})
	shown, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if strings.Contains(log.String()+string(shown), canary) {
		t.Errorf("the token is shown:\n%s\n%s", log, shown)
	}
	if n := strings.Count(log.String(), "broker unreachable; trying again"); n != 2 {
		t.Errorf("two outages are told %d times:\n%s", n, log)
	}
	if s.Health().Sources["order"].State != server.StateEnded {
		t.Error("it ended and does not say so")
	}
}

func TestAPositionOfAnotherLifeStopsThatSourceAlone(t *testing.T) {
	at, db := database(t)
	other, _ := database(t)
	p := port(t)
	broker(t, t.TempDir(), "tok", p)
	brokerURL := fmt.Sprintf("nats://tok@127.0.0.1:%d", p)
	insert(t, db, "e-1")
	cfg := server.Config{Sources: map[string]server.SourceConfig{"order": {DB: at, Broker: brokerURL}, "other": {DB: other, Broker: brokerURL}}}
	s, log, stop := start(t, cfg)
	await(t, s, log, "sending", func(h server.Health) bool { return h.Sources["order"].Published == 1 })
	stop()
	exec(t, db, `UPDATE t_outbox_event SET event_id = 'restored'`)
	s, log, _ = start(t, cfg)
	h := await(t, s, log, "stopped", func(h server.Health) bool {
		return h.Sources["order"].State == server.StateUnreachable && h.Sources["other"].State == server.StateLeading
	})
	if got := h.Sources["order"]; got.What != "relay" || !strings.Contains(got.Cause, settle.ErrNewGeneration.Error()) {
		t.Errorf("it stands so: %+v", got)
	}
}

func exec(t *testing.T, db *dial.Database, query string) {
	t.Helper()
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func(tx *sql.Tx) { _ = tx.Rollback() }(tx)
	if _, err := tx.ExecContext(t.Context(), query); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

func TestAnEmbeddedBrokerKeepsItsTokenAndIsTakenOver(t *testing.T) {
	at, db := database(t)
	cfg := server.Config{
		Embedded: server.EmbeddedConfig{Dir: filepath.Join(t.TempDir(), "broker"), Port: port(t)},
		Sources:  map[string]server.SourceConfig{"order": {DB: at, Relay: server.RelayConfig{LeaseTTL: time.Second}}},
	}
	one, log, stop := start(t, cfg)
	await(t, one, log, "serving", func(h server.Health) bool { return h.Ready && h.Embedded.State == server.StateServing })
	two, log2, _ := start(t, cfg)
	await(t, two, log2, "standing by", func(h server.Health) bool {
		return h.Sources["order"].State == server.StateStandingBy && h.Embedded.State == server.StateStandingBy
	})
	insert(t, db, "e-1")
	await(t, one, log, "sending", func(h server.Health) bool { return h.Sources["order"].Published == 1 })
	stop()
	insert(t, db, "e-2")
	await(t, two, log2, "taken over", func(h server.Health) bool {
		return h.Embedded.State == server.StateServing && h.Sources["order"].Published == 1
	})
}

func TestAConfigThatCanNotBeIsRefusedBeforeAnythingBegins(t *testing.T) {
	if err := server.New(server.Config{}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "sources must be given") {
		t.Errorf("got %v", err)
	}
}
