package concurrent

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
)

// Process is a store as one process has it open.
type Process struct {
	Dialect
	Inbox      settle.Inbox[*sql.Tx]
	Governance govern.Store
	Outbox     settle.Outbox[*sql.Tx]
	Log        relay.Store
	// DB is for the business's transactions; what Reader reads is committed.
	DB, Reader *sql.DB
	// Waiting counts the connections to this database that wait for a lock. A
	// check that asks for it says so.
	Waiting func(ctx context.Context) (int, error)
}

// Options is what processes are opened with.
type Options struct {
	// MaxConns is how many connections each may have. Defaults to 8.
	MaxConns int
	// Clock tells the time they go by. Defaults to that of the store.
	Clock func() time.Time
}

// Open opens a database of the test's own, as n processes do; t cleans up.
type Open func(t testing.TB, n int, o Options) []Process

// processes opens n, and makes the table of effects and what setup says.
func processes(t *testing.T, open Open, n int, setup ...string) []Process {
	t.Helper()
	all := open(t, n, Options{MaxConns: 8})
	for _, query := range append([]string{all[0].CreateEffects()}, setup...) {
		if _, err := all[0].DB.ExecContext(t.Context(), query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	return all
}

// count is a query of one number.
func (p *Process) count(t *testing.T, query string, args ...any) (n int) {
	t.Helper()
	if err := p.Reader.QueryRowContext(t.Context(), p.sql(query), args...).Scan(&n); err != nil {
		t.Errorf("%s: %v", query, err)
	}
	return n
}

// write is a handler that writes the event's id as the effect.
func (p *Process) write(items []settle.Item) func(context.Context, *sql.Tx, int) error {
	return func(ctx context.Context, tx *sql.Tx, i int) error {
		return p.WriteEffect(ctx, tx, items[i].Record.Event.ID)
	}
}

// WantOnceInOrder checks that this many events had one effect each, those of a
// key in order.
func WantOnceInOrder(t testing.TB, reader *sql.DB, want int) {
	t.Helper()
	rows, err := Effects(t.Context(), reader)
	if err != nil {
		t.Fatal(err)
	}
	last, seen := map[string]string{}, map[string]bool{}
	for _, id := range rows {
		key, _, _ := strings.Cut(id, "-")
		if seen[id] {
			t.Errorf("event %s took effect twice", id)
		}
		if id < last[key] {
			t.Errorf("event %s took effect after %s", id, last[key])
		}
		seen[id], last[key] = true, id
	}
	if len(seen) != want {
		t.Errorf("%d events took effect, want %d", len(seen), want)
	}
}

// Verdicts returns those of results.
func Verdicts(results []settle.Result) []settle.Verdict {
	var out []settle.Verdict
	for _, r := range results {
		out = append(out, r.Verdict)
	}
	return out
}

func wantVerdicts(t *testing.T, got []settle.Verdict, want ...settle.Verdict) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("verdicts are %v, want %v", got, want)
	}
}
