package mysql_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/mysql"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

// applyAll applies items, and calls do in the handler behind the effect.
func applyAll(t *testing.T, s *mysql.Store, items []settle.Item, do func(ctx context.Context, tx *sql.Tx, id string) error) []settle.Result {
	t.Helper()
	results, err := s.Inbox().Apply(t.Context(), settle.Work{Group: "g", Items: items}, func(ctx context.Context, tx *sql.Tx, i int) error {
		id := items[i].Record.Event.ID
		if err := writeEffect(ctx, tx, id); err != nil {
			return err
		}
		return do(ctx, tx, id)
	})
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func wantVerdicts(t *testing.T, results []settle.Result, want ...settle.Verdict) {
	t.Helper()
	if got := concurrent.Verdicts(results); !slices.Equal(got, want) {
		t.Fatalf("verdicts are %v, want %v: %+v", got, want, results)
	}
}

func wantEffects(t *testing.T, s *mysql.Store, want ...string) {
	t.Helper()
	if got, err := concurrent.Effects(t.Context(), s.Reader()); err != nil || !slices.Equal(got, want) {
		t.Fatalf("effects are %v, %v, want %v", got, err, want)
	}
}

func logged(t *testing.T, s *mysql.Store) string {
	t.Helper()
	var all sql.NullString
	err := s.Reader().QueryRow(`SELECT GROUP_CONCAT(CONCAT(event_id, ' ', status) ORDER BY event_id) FROM t_message_consume_log`).Scan(&all)
	if err != nil {
		t.Fatal(err)
	}
	return all.String
}

// What would commit half an event reaches no server, however it is said.
func TestAHandlerThatWouldCommitIsRefusedAndNothingOfItIsKept(t *testing.T) {
	s := processes(t, 1)[0]
	said := map[string]func(ctx context.Context, tx *sql.Tx) error{
		"a": func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "CREATE TABLE t_day (id INT)")
			return err
		},
		"b": func(ctx context.Context, tx *sql.Tx) error {
			st, err := tx.PrepareContext(ctx, "/* prepared */ ALTER TABLE t_effect ADD COLUMN x INT")
			if err == nil {
				_, err = st.ExecContext(ctx)
			}
			return err
		},
		"c": func(ctx context.Context, tx *sql.Tx) error {
			_, _ = tx.ExecContext(ctx, "commit") // and hides it
			return nil
		},
	}
	for _, key := range []string{"a", "b", "c"} {
		results := applyAll(t, s, []settle.Item{concurrent.Item("before", int(key[0])), concurrent.Item(key, 1), concurrent.Item(key, 2)}, func(ctx context.Context, tx *sql.Tx, id string) error {
			if id == key+"-001" {
				return said[key](ctx, tx)
			}
			return nil
		})
		wantVerdicts(t, results, settle.VerdictApplied, settle.VerdictFailed, settle.VerdictNotRun)
		if text := fmt.Sprint(results[1].Err); !strings.Contains(text, "must not end the transaction") {
			t.Errorf("the error says %s", text)
		}
	}
	wantEffects(t, s, "before-097", "before-098", "before-099")
	if got := logged(t, s); got != "before-097 APPLIED,before-098 APPLIED,before-099 APPLIED" {
		t.Errorf("recorded are %s", got)
	}
}

// A stored procedure commits where nobody sees it before. The event counts as
// failed, not as done, and those behind it as not run.
func TestAProcedureThatCommitsFailsItsEventAndLosesNoOther(t *testing.T) {
	s := processes(t, 1, `CREATE PROCEDURE p_day() BEGIN CREATE TABLE IF NOT EXISTS t_day (id INT); END`, `CREATE PROCEDURE p_fine() BEGIN INSERT INTO t_effect (row_id) VALUES ('fine'); END`)[0]
	items := []settle.Item{concurrent.Item("a", 1), concurrent.Item("b", 1), concurrent.Item("c", 1)}
	calls := map[string]int{}
	call := func(ctx context.Context, tx *sql.Tx, id string) error {
		calls[id]++
		if id != "b-001" || calls[id] > 1 {
			return nil
		}
		if _, err := tx.ExecContext(ctx, "CALL p_day()"); err != nil {
			return err
		}
		return writeEffect(ctx, tx, "behind the commit")
	}
	results := applyAll(t, s, items, call)
	if results[1].Verdict != settle.VerdictFailed || !strings.Contains(fmt.Sprint(results[1].Err), "has ended the transaction") {
		t.Fatalf("the event is %+v", results[1])
	}
	// Whatever is delivered again is done or was done.
	for range 2 {
		results = applyAll(t, s, items, call)
	}
	wantVerdicts(t, results, settle.VerdictDuplicate, settle.VerdictDuplicate, settle.VerdictDuplicate)
	// Half of b was committed, and then all of it; nothing behind the commit is kept.
	if calls["a-001"] != 1 || calls["b-001"] != 2 || calls["c-001"] != 1 {
		t.Errorf("handlers were called %v", calls)
	}
	if got, err := concurrent.Effects(t.Context(), s.Reader()); err != nil || slices.Contains(got, "behind the commit") || !slices.Contains(got, "c-001") {
		t.Errorf("effects are %v, %v", got, err)
	}
	// The same of one that waits: it waits on.
	parked := concurrent.Item("p", 1)
	parked.Intent, parked.Class, parked.Cause = settle.IntentPark, settle.ClassHandler, "later"
	wantVerdicts(t, applyAll(t, s, []settle.Item{parked}, call), settle.VerdictParked)
	due, err := s.Inbox().Due(t.Context(), "g", 10)
	if err != nil || len(due.Items) != 1 {
		t.Fatalf("Due gives %v, %v", due, err)
	}
	day := func(ctx context.Context, tx *sql.Tx, _ string) error {
		_, err := tx.ExecContext(ctx, "CALL p_day()")
		return err
	}
	wantVerdicts(t, applyAll(t, s, due.Items, day), settle.VerdictFailed)
	wantVerdicts(t, applyAll(t, s, due.Items, call), settle.VerdictApplied)
	results = applyAll(t, s, []settle.Item{concurrent.Item("d", 1)}, func(ctx context.Context, tx *sql.Tx, _ string) error {
		_, err := tx.ExecContext(ctx, "CALL p_fine()")
		return err
	})
	wantVerdicts(t, results, settle.VerdictApplied)
}

// A deadlock has rolled back all that was done, whatever the handler makes of
// the error; what it does behind it is nobody's.
func TestADeadlockThatAHandlerHidesIsNeverAcknowledged(t *testing.T) {
	s := processes(t, 1, `CREATE TABLE t_stock (sku INT PRIMARY KEY, n INT NOT NULL)`, `INSERT INTO t_stock VALUES (1, 0), (2, 0)`)[0]
	other, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback() }()
	// The other one has written more, so that it is not the one to be ended.
	for i := range 50 {
		if _, err := other.ExecContext(t.Context(), `INSERT INTO t_stock VALUES (?, 0)`, 100+i); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := other.ExecContext(t.Context(), `UPDATE t_stock SET n = n + 1 WHERE sku = 1`); err != nil {
		t.Fatal(err)
	}
	var deadlocks, calls int
	var wg sync.WaitGroup
	results := applyAll(t, s, []settle.Item{concurrent.Item("a", 1)}, func(ctx context.Context, tx *sql.Tx, id string) error {
		if calls++; calls > 1 {
			return nil
		}
		if _, err := tx.ExecContext(ctx, `UPDATE t_stock SET n = n + 1 WHERE sku = 2`); err != nil {
			return err
		}
		wg.Go(func() {
			if _, err := other.ExecContext(context.Background(), `UPDATE t_stock SET n = n + 1 WHERE sku = 2`); err != nil {
				t.Error(err)
			}
			if err := other.Commit(); err != nil {
				t.Error(err)
			}
		})
		if _, err := tx.ExecContext(ctx, `UPDATE t_stock SET n = n + 1 WHERE sku = 1`); err != nil {
			deadlocks++
		}
		return writeEffect(ctx, tx, "behind the deadlock")
	})
	wg.Wait()
	wantVerdicts(t, results, settle.VerdictApplied)
	if deadlocks != 1 || calls != 2 {
		t.Fatalf("%d deadlocks, %d calls: the test proves nothing", deadlocks, calls)
	}
	wantEffects(t, s, "a-001")
}

// An error of one statement leaves the transaction whole: that the handler goes
// on is its own decision.
func TestAnErrorOfAStatementThatAHandlerTakesIsItsOwnDecision(t *testing.T) {
	s := processes(t, 1, `CREATE TABLE t_once (id INT PRIMARY KEY)`, `INSERT INTO t_once VALUES (1)`)[0]
	results := applyAll(t, s, []settle.Item{concurrent.Item("a", 1), concurrent.Item("b", 1)}, func(ctx context.Context, tx *sql.Tx, _ string) error {
		if _, err := tx.ExecContext(ctx, `INSERT INTO t_once VALUES (1)`); err == nil {
			t.Error("a duplicate key is no error")
		}
		return nil
	})
	wantVerdicts(t, results, settle.VerdictApplied, settle.VerdictApplied)
	wantEffects(t, s, "a-001", "b-001")
}

// Fifty works at once that each take the same rows in an order of their own.
func TestAStormOfDeadlocksCostsNoAttempt(t *testing.T) {
	const works, rows = 50, 4
	stores := processes(t, 2, `CREATE TABLE t_stock (sku INT PRIMARY KEY, n INT NOT NULL)`, `INSERT INTO t_stock VALUES (0, 0), (1, 0), (2, 0), (3, 0)`)
	var wg sync.WaitGroup
	var mu sync.Mutex
	deadlocks := 0
	for w := range works {
		wg.Go(func() {
			var items []settle.Item
			for n := range rows {
				items = append(items, concurrent.Item(fmt.Sprintf("w%02d%d", w, n), 1))
			}
			for len(items) > 0 {
				results, err := stores[w%2].Inbox().Apply(t.Context(), settle.Work{Group: "g", Items: items}, func(ctx context.Context, tx *sql.Tx, i int) error {
					id := items[i].Record.Event.ID
					sku := int(id[3] - '0')
					if w%2 == 1 {
						sku = rows - 1 - sku
					}
					_, err := tx.ExecContext(ctx, `UPDATE t_stock SET n = n + 1 WHERE sku = ?`, sku)
					if err != nil && strings.Contains(err.Error(), "1213") {
						mu.Lock()
						deadlocks++
						mu.Unlock()
					}
					return err
				})
				var rest []settle.Item
				for i, r := range results {
					if r.Verdict == settle.VerdictFailed {
						t.Errorf("a deadlock is the failure of an event: %+v", r)
					}
					if !r.Verdict.Durable() {
						rest = append(rest, items[i])
					}
				}
				// What is given back for now is delivered again.
				if err == nil {
					items = rest
				} else if !strings.Contains(err.Error(), "1213") && !strings.Contains(err.Error(), "1205") {
					t.Errorf("Apply: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	if deadlocks == 0 {
		t.Error("there was no deadlock: the test proves nothing")
	}
	var wrong int
	if err := stores[0].Reader().QueryRow(`SELECT count(*) FROM t_stock WHERE n <> ?`, works).Scan(&wrong); err != nil || wrong != 0 {
		t.Errorf("%d rows have another number of effects, %v", wrong, err)
	}
}
