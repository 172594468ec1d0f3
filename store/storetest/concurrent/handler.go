package concurrent

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/settlemq/settle"
)

// Deadlocks lets a handler that locks rows in the order of its events meet
// another one that locks them the other way round. No event may fail.
func Deadlocks(t *testing.T, open Open) {
	const rows, rounds = 20, 5
	setup := []string{`CREATE TABLE t_stock (sku integer PRIMARY KEY, n integer NOT NULL)`}
	for sku := range rows {
		setup = append(setup, fmt.Sprintf(`INSERT INTO t_stock VALUES (%d, 0)`, sku))
	}
	all := processes(t, open, 2, setup...)
	var wg sync.WaitGroup
	for who, p := range all {
		wg.Go(func() {
			for round := range rounds {
				var items []settle.Item
				for n := range rows {
					items = append(items, Item(fmt.Sprintf("p%dr%dn%02d", who, round, n), 1))
				}
				results, err := p.Inbox.Apply(t.Context(), settle.Work{Group: "g", Items: items}, func(ctx context.Context, tx *sql.Tx, i int) error {
					sku := i
					if who == 1 {
						sku = rows - 1 - i
					}
					_, err := tx.ExecContext(ctx, p.sql(`UPDATE t_stock SET n = n + 1 WHERE sku = ?`), sku)
					return err
				})
				if err != nil || slices.ContainsFunc(results, func(r settle.Result) bool { return r.Verdict != settle.VerdictApplied }) {
					t.Errorf("Apply gives %v, %v", results, err)
				}
			}
		})
	}
	wg.Wait()
	if wrong := all[0].count(t, `SELECT count(*) FROM t_stock WHERE n <> ?`, len(all)*rounds); wrong != 0 {
		t.Errorf("%d rows have another number of effects", wrong)
	}
}

// LostConnection ends the connection of a handler, by kill from another one.
// The events are applied all the same, each once.
func LostConnection(t *testing.T, open Open, kill func(ctx context.Context, from *sql.DB, tx *sql.Tx) error) {
	p := processes(t, open, 1)[0]
	items := []settle.Item{Item("a", 1), Item("a", 2), Item("b", 1)}
	killed := false
	results, err := p.Inbox.Apply(t.Context(), settle.Work{Group: "g", Items: items}, func(ctx context.Context, tx *sql.Tx, i int) error {
		if i == 1 && !killed {
			killed = true
			if err := kill(ctx, p.DB, tx); err != nil {
				return err
			}
		}
		return p.WriteEffect(ctx, tx, items[i].Record.Event.ID)
	})
	if want := []settle.Verdict{applied, applied, applied}; err != nil || !slices.Equal(Verdicts(results), want) {
		t.Fatalf("Apply gives %v, %v; want all applied", results, err)
	}
	WantOnceInOrder(t, p.Reader, len(items))
}

// Failing is what handlers do that fail in ways of one kind of database.
type Failing struct {
	// Refused is a statement that is an error, and Rows a query of many rows.
	Refused, Rows string
	// Deferred lets t_effect have each row once, which is checked at the commit.
	// Defaults to empty: the database has no such constraint.
	Deferred string
}

func (f Failing) handlers(p *Process) map[string]func(ctx context.Context, tx *sql.Tx) error {
	all := map[string]func(ctx context.Context, tx *sql.Tx) error{
		"c": func(context.Context, *sql.Tx) error { return errUnlucky },
		"e": func(ctx context.Context, tx *sql.Tx) error { // overlooks the error of a statement
			_, _ = tx.ExecContext(ctx, f.Refused)
			return nil
		},
		"i": func(ctx context.Context, tx *sql.Tx) error { // leaves rows open
			_, err := tx.QueryContext(ctx, f.Rows) //nolint:sqlclosecheck,rowserrcheck
			return err
		},
		"k": func(context.Context, *sql.Tx) error { panic("at the disco") },
	}
	if f.Deferred != "" {
		all["g"] = func(ctx context.Context, tx *sql.Tx) error { return p.WriteEffect(ctx, tx, "g-001") }
	}
	return all
}

// FailedHandlers lets some events fail in one work. Each other one that is not
// behind them takes effect.
func FailedHandlers(t *testing.T, open Open, f Failing) {
	var setup []string
	if f.Deferred != "" {
		setup = append(setup, f.Deferred)
	}
	p := processes(t, open, 1, setup...)[0]
	failures := f.handlers(&p)
	var items []settle.Item
	for n := 1; n <= 2; n++ {
		for _, key := range strings.Split("abcdefghijkl", "") {
			items = append(items, Item(key, n))
		}
	}
	calls := map[string]int{}
	results, err := p.Inbox.Apply(t.Context(), settle.Work{Group: "g", Items: items}, func(ctx context.Context, tx *sql.Tx, i int) error {
		e := items[i].Record.Event
		calls[e.ID]++
		if err := p.WriteEffect(ctx, tx, e.ID); err != nil {
			return err
		}
		if fail := failures[e.AggregateID]; fail != nil && e.AggregateSeq == 1 {
			return fail(ctx, tx)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		e, want := items[i].Record.Event, applied
		if failures[e.AggregateID] != nil {
			want = settle.VerdictFailed
			if e.AggregateSeq > 1 {
				want = settle.VerdictNotRun
			}
		}
		if r.Verdict != want || want == settle.VerdictFailed && r.Err == nil {
			t.Errorf("event %s is %+v, want verdict %d", e.ID, r, want)
		}
		// What is found at the commit is not known to be this event's before.
		if calls[e.ID] > 1 && want == settle.VerdictFailed && e.AggregateID != "g" {
			t.Errorf("event %s failed and was handled %d times", e.ID, calls[e.ID])
		}
	}
	WantOnceInOrder(t, p.Reader, len(items)-2*len(failures))
}
