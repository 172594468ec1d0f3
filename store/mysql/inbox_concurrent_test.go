package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/mysql"
)

// processes are stores on one schema, as several processes have them.
func processes(t *testing.T, n int, setup ...string) []*mysql.Store {
	t.Helper()
	return processesAt(t, mysql.DatabaseForTest(t), n, setup...)
}

func processesAt(t *testing.T, at string, n int, setup ...string) []*mysql.Store {
	t.Helper()
	stores := make([]*mysql.Store, n)
	for i := range stores {
		stores[i] = mysql.OpenForTest(t, at, mysql.Config{MaxConns: 8})
	}
	for _, query := range append([]string{createEffects}, setup...) {
		if _, err := stores[0].DB().ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	return stores
}

func writeEffect(ctx context.Context, tx *sql.Tx, row string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO t_effect (row_id) VALUES (?)`, row)
	return err
}

// eventOn makes an item of the n-th event of a key.
func eventOn(key string, n int) settle.Item {
	now := time.Now()
	e := &settle.Event{ID: fmt.Sprintf("%s-%03d", key, n), Type: "x", AggregateType: "o", AggregateID: key, AggregateSeq: int64(n), AppendedAt: now, OccurredAt: now, Payload: []byte("{}")}
	return settle.Item{Attempt: 1, Record: settle.Record{Event: e, Raw: settle.AppendEnvelope(nil, e), Key: key, Position: int64(n)}}
}

func verdicts(results []settle.Result) []settle.Verdict {
	var out []settle.Verdict
	for _, r := range results {
		out = append(out, r.Verdict)
	}
	return out
}

// wantOnceInOrder checks that each event had one effect, those of a key in order.
func wantOnceInOrder(t *testing.T, s *mysql.Store, want int) {
	t.Helper()
	rows, err := effects(t.Context(), s.Reader())
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

// Partitions whose owner changes are delivered to both for a while.
func TestEventsInTheHandsOfSeveralProcessesTakeEffectOnceAndInOrder(t *testing.T) {
	deliverToAll(t, processes(t, 2))
}

func deliverToAll(t *testing.T, stores []*mysql.Store) {
	t.Helper()
	const keys, each = 5, 40
	var log []settle.Item
	for n := range each {
		for k := range keys {
			log = append(log, eventOn(fmt.Sprint("k", k), n+1))
		}
	}
	var wg sync.WaitGroup
	for worker := range 6 {
		in := stores[worker%2].Inbox()
		wg.Go(func() {
			for from := worker; from < len(log); {
				items := log[max(0, from-10):min(from+7+worker, len(log))]
				results, err := in.Apply(t.Context(), settle.Work{Group: "g", Items: items}, func(ctx context.Context, tx *sql.Tx, i int) error {
					return writeEffect(ctx, tx, items[i].Record.Event.ID)
				})
				if err != nil {
					t.Errorf("Apply: %v", err)
					return
				}
				if i := slices.IndexFunc(results, func(r settle.Result) bool { return !r.Verdict.Durable() }); i >= 0 {
					t.Errorf("event %s is %v", items[i].Record.Event.ID, results[i])
				}
				from += 7
			}
		})
	}
	wg.Wait()
	wantOnceInOrder(t, stores[0], keys*each)
}

func TestWaitingEventsThatSeveralProcessesDrainTakeEffectOnceAndInOrder(t *testing.T) {
	drainByAll(t, processes(t, 3))
}

func drainByAll(t *testing.T, stores []*mysql.Store) {
	t.Helper()
	const keys, each = 4, 15
	deliver := func(n int, fails bool) {
		for k := range keys {
			items := []settle.Item{eventOn(fmt.Sprint("k", k), n)}
			if fails {
				items[0].Intent, items[0].Class, items[0].Cause = settle.IntentPark, settle.ClassHandler, "later"
			}
			results, err := stores[0].Inbox().Apply(t.Context(), settle.Work{Group: "g", Items: items}, func(ctx context.Context, tx *sql.Tx, i int) error {
				return writeEffect(ctx, tx, items[i].Record.Event.ID)
			})
			if err != nil || !results[0].Verdict.Durable() {
				t.Errorf("deliver: %v, %v", results, err)
			}
		}
	}
	deliver(1, true)
	var delivered atomic.Bool
	var wg sync.WaitGroup
	for _, s := range stores[1:] {
		wg.Go(func() { drain(t, s, "g", func() bool { return delivered.Load() }) })
	}
	for n := 2; n <= each; n++ {
		deliver(n, n%5 == 0) // parked or not, it waits behind the first as long as that is there
	}
	delivered.Store(true)
	wg.Wait()
	wantOnceInOrder(t, stores[0], keys*each)
	var left int
	if err := stores[0].Reader().QueryRow(`SELECT count(*) FROM t_consume_retry`).Scan(&left); err != nil || left != 0 {
		t.Errorf("%d events wait for nothing, %v", left, err)
	}
}

// drain works off what is due until nothing is and done says that no more will be.
func drain(t *testing.T, s *mysql.Store, group string, done func() bool) {
	in := s.Inbox()
	for deadline := time.Now().Add(30 * time.Second); ; {
		last := done()
		d, err := in.Due(t.Context(), group, 20)
		if err != nil {
			t.Errorf("Due: %v", err)
			return
		}
		if len(d.Items) == 0 && last {
			return
		}
		if time.Now().After(deadline) {
			t.Error("what is due is never done")
			return
		}
		_, err = in.Apply(t.Context(), settle.Work{Group: group, Items: d.Items}, func(ctx context.Context, tx *sql.Tx, i int) error {
			return writeEffect(ctx, tx, d.Items[i].Record.Event.ID)
		})
		if err != nil {
			t.Errorf("Apply: %v", err)
			return
		}
	}
}

// A handler that locks rows in the order of its events meets another one that
// locks them the other way round.
func TestDeadlocksOfHandlersCostNoEventAnAttempt(t *testing.T) {
	stores := processes(t, 2, `CREATE TABLE t_stock (sku INT PRIMARY KEY, n INT NOT NULL)`, `INSERT INTO t_stock WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 20) SELECT i, 0 FROM s`)
	var wg sync.WaitGroup
	for p, s := range stores {
		wg.Go(func() {
			for round := range 5 {
				var items []settle.Item
				for n := range 20 {
					items = append(items, eventOn(fmt.Sprintf("p%dr%dn%02d", p, round, n), 1))
				}
				results, err := s.Inbox().Apply(t.Context(), settle.Work{Group: "g", Items: items}, func(ctx context.Context, tx *sql.Tx, i int) error {
					sku := i + 1
					if p == 1 {
						sku = 20 - i
					}
					_, err := tx.ExecContext(ctx, `UPDATE t_stock SET n = n + 1 WHERE sku = ?`, sku)
					return err
				})
				if err != nil || slices.ContainsFunc(results, func(r settle.Result) bool { return r.Verdict != settle.VerdictApplied }) {
					t.Errorf("Apply gives %v, %v", results, err)
				}
			}
		})
	}
	wg.Wait()
	var wrong int
	if err := stores[0].Reader().QueryRow(`SELECT count(*) FROM t_stock WHERE n <> 10`).Scan(&wrong); err != nil || wrong != 0 {
		t.Errorf("%d rows have another number of effects, %v", wrong, err)
	}
}

func TestAConnectionThatIsLostInAHandlerIsNobodysFailure(t *testing.T) {
	s := processes(t, 1)[0]
	items := []settle.Item{eventOn("a", 1), eventOn("a", 2), eventOn("b", 1)}
	killed := false
	results, err := s.Inbox().Apply(t.Context(), settle.Work{Group: "g", Items: items}, func(ctx context.Context, tx *sql.Tx, i int) error {
		if i == 1 && !killed {
			killed = true
			var pid int
			if err := tx.QueryRowContext(ctx, `SELECT CONNECTION_ID()`).Scan(&pid); err != nil {
				return err
			}
			if _, err := s.DB().ExecContext(ctx, fmt.Sprint("KILL ", pid)); err != nil {
				return err
			}
		}
		return writeEffect(ctx, tx, items[i].Record.Event.ID)
	})
	if want := []settle.Verdict{settle.VerdictApplied, settle.VerdictApplied, settle.VerdictApplied}; err != nil || !slices.Equal(verdicts(results), want) {
		t.Fatalf("Apply gives %v, %v; want all applied", results, err)
	}
	wantOnceInOrder(t, s, 3)
}

var errUnlucky = errors.New("unlucky")

func TestWhatAFailedHandlerDoesNotHoldIsKept(t *testing.T) {
	s := processes(t, 1)[0]
	failures := map[string]func(ctx context.Context, tx *sql.Tx) error{
		"c": func(context.Context, *sql.Tx) error { return errUnlucky },
		"e": func(ctx context.Context, tx *sql.Tx) error { // overlooks that a statement was refused
			_, _ = tx.ExecContext(ctx, `TRUNCATE t_effect`)
			return nil
		},
		"i": func(ctx context.Context, tx *sql.Tx) error { // leaves rows open
			_, err := tx.QueryContext(ctx, `SELECT table_name FROM information_schema.tables`) //nolint:sqlclosecheck,rowserrcheck
			return err
		},
		"k": func(context.Context, *sql.Tx) error { panic("at the disco") },
	}
	var items []settle.Item
	for n := 1; n <= 2; n++ {
		for _, key := range strings.Split("abcdefghijkl", "") {
			items = append(items, eventOn(key, n))
		}
	}
	calls := map[string]int{}
	results, err := s.Inbox().Apply(t.Context(), settle.Work{Group: "g", Items: items}, func(ctx context.Context, tx *sql.Tx, i int) error {
		e := items[i].Record.Event
		calls[e.ID]++
		if err := writeEffect(ctx, tx, e.ID); err != nil {
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
		e, want := items[i].Record.Event, settle.VerdictApplied
		if failures[e.AggregateID] != nil {
			want = settle.VerdictFailed
			if e.AggregateSeq > 1 {
				want = settle.VerdictNotRun
			}
		}
		if r.Verdict != want || want == settle.VerdictFailed && r.Err == nil {
			t.Errorf("event %s is %+v, want verdict %d", e.ID, r, want)
		}
		if calls[e.ID] > 1 && want == settle.VerdictFailed {
			t.Errorf("event %s failed and was handled %d times", e.ID, calls[e.ID])
		}
	}
	wantOnceInOrder(t, s, len(items)-2*len(failures))
}

// A process that hangs in a handler keeps its partition until it ends; what it
// has done by then is kept, and what it does after it is refused.
func TestAnOwnerThatHangsIsFencedAndItsPartitionIsTakenWhenItEnds(t *testing.T) {
	stores := processes(t, 2)
	old, next := stores[0].Inbox(), stores[1].Inbox()
	ask := func(owner string, ttl time.Duration) settle.ClaimRequest {
		return settle.ClaimRequest{Group: "g", Topic: "t", Owner: owner, Partitions: 2, TTL: ttl}
	}
	claims, err := old.Claim(t.Context(), ask("x", 50*time.Millisecond))
	if err != nil || len(claims) != 2 {
		t.Fatal(claims, err)
	}
	w := settle.Work{Group: "g", Items: []settle.Item{eventOn("a", 1)}, Floors: []settle.FloorMove{{Partition: claims[0].Partition, To: settle.Floor{Generation: "g1", Position: 1, EventID: "a-001"}}}}
	results, err := old.Apply(t.Context(), w, func(ctx context.Context, tx *sql.Tx, _ int) error {
		for {
			got, err := next.Claim(ctx, ask("y", time.Minute))
			if err != nil {
				return err
			}
			if len(got) == 1 && got[0].Partition.Number == 1 {
				return writeEffect(ctx, tx, "a-001")
			}
			if len(got) > 1 {
				return errors.New("a partition is taken while its owner writes")
			}
		}
	})
	if err != nil || results[0].Verdict != settle.VerdictApplied {
		t.Fatalf("Apply gives %v, %v", results, err)
	}
	got, err := next.Claim(t.Context(), ask("y", time.Minute))
	if err != nil || len(got) != 2 || got[0].Floor.Position != 1 || got[0].Deaths != 0 || got[1].Deaths != 1 {
		t.Fatalf("Claim gives %+v, %v; want both, the floor at 1, and one death of the other", got, err)
	}
	w.Items = []settle.Item{eventOn("a", 2)}
	if _, err := old.Apply(t.Context(), w, func(context.Context, *sql.Tx, int) error { return nil }); !errors.Is(err, settle.ErrFenced) {
		t.Fatalf("Apply of the old owner gives %v, want %v", err, settle.ErrFenced)
	}
}
