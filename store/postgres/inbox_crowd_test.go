package postgres_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"sync"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

// Two members whose handlers take rows in opposite orders, fifty works each:
// every event takes effect once, none fails, and after the first deadlock each
// event has a transaction of its own.
func TestAStormOfDeadlocksCostsNoAttemptAndMakesTransactionsSmall(t *testing.T) {
	t.Parallel()
	const works, rows = 50, 8
	u, err := url.Parse(postgres.DatabaseForTest(t))
	if err != nil {
		t.Fatal("the URL can't be read")
	}
	q := u.Query()
	q.Set("deadlock_timeout", "20ms")
	u.RawQuery = q.Encode()
	stores := processesAt(t, u.String(), 2, `CREATE TABLE t_stock (sku integer PRIMARY KEY, n integer NOT NULL)`, fmt.Sprintf(`INSERT INTO t_stock SELECT generate_series(1, %d), 0`, rows))
	var members sync.WaitGroup
	met := make([]bool, 2)
	// At first each has a row and waits until the other has one, too: they meet.
	var has [2]sync.WaitGroup
	var first [2]sync.Once
	has[0].Add(1)
	has[1].Add(1)
	for p, s := range stores {
		members.Go(func() {
			defer first[p].Do(has[p].Done) // nobody waits for one that has failed
			for round := range works {
				var items []settle.Item
				for n := range rows {
					items = append(items, concurrent.Item(fmt.Sprintf("p%dr%dn%d", p, round, n), 1))
				}
				deadlocks := postgres.MeetsDeadlocks(s, "g")
				met[p] = met[p] || deadlocks
				transactions := map[int64]int{}
				results, err := s.Inbox().Apply(t.Context(), settle.Work{Group: "g", Items: items}, func(ctx context.Context, tx *sql.Tx, i int) error {
					sku := i + 1
					if p == 1 {
						sku = rows - i
					}
					if _, err := tx.ExecContext(ctx, `UPDATE t_stock SET n = n + 1 WHERE sku = $1`, sku); err != nil {
						return err
					}
					first[p].Do(func() {
						has[p].Done()
						has[1-p].Wait()
					})
					var id int64
					err := tx.QueryRowContext(ctx, `SELECT pg_current_xact_id()::text::bigint`).Scan(&id)
					transactions[id]++
					return err
				})
				if err != nil {
					t.Errorf("Apply: %v", err)
					return
				}
				for _, r := range results {
					if r.Verdict != settle.VerdictApplied {
						t.Errorf("an event is %+v", r)
					}
				}
				if deadlocks && len(transactions) < rows {
					t.Errorf("%d events are applied in %d transactions", rows, len(transactions))
				}
			}
		})
	}
	members.Wait()
	if !met[0] && !met[1] {
		t.Error("there was no deadlock: the test proves nothing")
	}
	var wrong int
	if err := stores[0].Reader().QueryRow(`SELECT count(*) FROM t_stock WHERE n <> $1`, 2*works).Scan(&wrong); err != nil || wrong != 0 {
		t.Errorf("%d rows have another number of effects, %v", wrong, err)
	}
}
