package outside

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// closing closes the tests' own connections when all tests have run.
type closing struct{ *testing.M }

func (c closing) Run() int {
	code := c.M.Run()
	http.DefaultClient.CloseIdleConnections()
	return code
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(closing{m}) }

// running is a system that serves in this process.
type running struct {
	dir, system, url string
	stop             func()
}

func start(t testing.TB, cfg Config) *running {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	cfg.Logger = slog.New(slog.DiscardHandler)
	ready, ended := make(chan string, 1), make(chan error, 1)
	cfg.Ready = func(addr string) { ready <- addr }
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- Run(ctx, cfg) }()
	s := &running{dir: cfg.Dir, system: cfg.System}
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("%s ended with %v", cfg.System, err)
		}
	})
	t.Cleanup(s.stop)
	select {
	case addr := <-ready:
		s.url = "http://" + addr
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	return s
}

func (s *running) address() (string, error) { return Address(s.dir, s.system) }

// post sends a body under a key and returns what comes back.
func (s *running) post(t *testing.T, path, key, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	return do(t, r)
}

func do(t *testing.T, r *http.Request) (int, string) {
	t.Helper()
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if kind := response.Header.Get("Content-Type"); (response.StatusCode >= 400) != (kind == "application/problem+json") {
		t.Errorf("status %d comes as %s", response.StatusCode, kind)
	}
	return response.StatusCode, string(b)
}

func (s *running) tell(t *testing.T, m Misbehaviour) Standing {
	t.Helper()
	standing, err := Misbehave(t.Context(), s.dir, s.system, m)
	if err != nil {
		t.Fatal(err)
	}
	return standing
}

func (s *running) standing(t *testing.T) Standing {
	t.Helper()
	standing, err := Inspect(t.Context(), s.dir, s.system)
	if err != nil {
		t.Fatal(err)
	}
	return standing
}

// rows returns the ledger as text, one row each: kind order customer cents key.
func (s *running) rows(t testing.TB) []string {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+LedgerPath(s.dir, s.system)+"?_pragma=query_only(1)&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(t.Context(), `SELECT kind, order_id, COALESCE(NULLIF(customer_id, ''), '-'), amount_cents, idempotency_key FROM entry ORDER BY created_at, idempotency_key`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var all []string
	for rows.Next() {
		var kind, order, customer, key string
		var cents int64
		if err := rows.Scan(&kind, &order, &customer, &cents, &key); err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s %s %s %d %s", kind, order, customer, cents, key))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func field(t *testing.T, body, name string) any {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return all[name]
}
