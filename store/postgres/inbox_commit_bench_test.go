package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/postgres"
)

type applies func(ctx context.Context, in *postgres.Inbox, w settle.Work, handle func(context.Context, *sql.Tx, int) error) ([]settle.Result, error)

// BenchmarkCommits compares what Apply does, one transaction for a work and
// pieces where that fails, with a transaction for each event of a work that is
// flushed at the end, and with one that is flushed for each event. Commits cost
// what the disk takes, or two milliseconds more (commit_delay).
func BenchmarkCommits(b *testing.B) {
	ways := map[string]applies{
		"together": func(ctx context.Context, in *postgres.Inbox, w settle.Work, handle func(context.Context, *sql.Tx, int) error) ([]settle.Result, error) {
			return in.Apply(ctx, w, handle)
		},
		"deferred flush": postgres.Deferred,
		"each flushed": func(ctx context.Context, in *postgres.Inbox, w settle.Work, handle func(context.Context, *sql.Tx, int) error) ([]settle.Result, error) {
			results := make([]settle.Result, len(w.Items))
			for i := range w.Items {
				one := settle.Work{Group: w.Group, Items: w.Items[i : i+1]}
				r, err := in.Apply(ctx, one, func(ctx context.Context, tx *sql.Tx, _ int) error { return handle(ctx, tx, i) })
				if err != nil {
					return nil, err
				}
				results[i] = r[0]
			}
			return results, nil
		},
	}
	for _, cost := range []string{"0", "2000"} {
		for _, way := range []string{"together", "deferred flush", "each flushed"} {
			for _, load := range []string{"all succeed", "one in 1,000 fails", "one in 100 fails", "4 members, rows in any order"} {
				b.Run("commit+"+cost+"us/"+load+"/"+way, func(b *testing.B) { benchCommits(b, cost, load, ways[way]) })
			}
		}
	}
}

func benchCommits(b *testing.B, cost, load string, apply applies) {
	u, err := url.Parse(postgres.DatabaseForTest(b))
	if err != nil {
		b.Fatal(err)
	}
	q := u.Query()
	q.Set("commit_delay", cost)
	q.Set("commit_siblings", "0")
	u.RawQuery = q.Encode()
	s := postgres.OpenForTest(b, u.String(), postgres.Config{})
	for _, query := range []string{
		`CREATE TABLE t_effect (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, order_id text, sku text, qty integer)`,
		`CREATE TABLE t_stock (sku integer PRIMARY KEY, n integer)`, `INSERT INTO t_stock SELECT generate_series(0, 499), 0`,
	} {
		if _, err := s.DB().ExecContext(b.Context(), query); err != nil {
			b.Fatal(err)
		}
	}
	members, every := 1, map[string]int64{"one in 1,000 fails": 1000, "one in 100 fails": 100}[load]
	if load == "4 members, rows in any order" {
		members = 4
	}
	var n, calls atomic.Int64
	began := time.Now()
	batch := func(first int) {
		items := make([]settle.Item, benchBatch)
		benchFill(items, first)
		results, err := apply(b.Context(), s.Inbox(), settle.Work{Group: "g", Items: items}, func(ctx context.Context, tx *sql.Tx, i int) error {
			calls.Add(1)
			at := first + i
			if every > 0 && int64(at)%every == every/2 {
				return errors.New("poisoned")
			}
			if members > 1 {
				for _, sku := range []int{at * 7919 % 500, at * 104729 % 499} {
					if _, err := tx.ExecContext(ctx, `UPDATE t_stock SET n = n + 1 WHERE sku = $1`, sku); err != nil {
						return err
					}
				}
				return nil
			}
			_, err := tx.ExecContext(ctx, benchEffect, items[i].Record.Event.AggregateID, "sku-1", i)
			return err
		})
		if err != nil {
			b.Error(err)
			return
		}
		for i, r := range results {
			if r.Verdict == settle.VerdictApplied {
				n.Add(1)
				continue
			}
			items[i].Intent, items[i].Class, items[i].Cause = settle.IntentPark, settle.ClassHandler, "poisoned"
			if _, err := s.Inbox().Apply(b.Context(), settle.Work{Group: "g", Items: items[i : i+1]}, nil); err != nil {
				b.Error(err)
			}
		}
	}
	next := 0
	for b.Loop() {
		var all sync.WaitGroup
		for range members {
			first := next
			next += benchBatch
			all.Go(func() { batch(first) })
		}
		all.Wait()
	}
	b.ReportMetric(float64(n.Load())/time.Since(began).Seconds(), "events/s")
	b.ReportMetric(float64(calls.Load())/float64(max(1, n.Load())), "calls/event")
}
