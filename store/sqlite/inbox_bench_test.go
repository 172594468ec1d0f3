package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/sqlite"
)

// BenchmarkInbox compares Apply with what any consumer must write: one log row
// and one row of the business for each event, in one transaction of 256.
func BenchmarkInbox(b *testing.B) {
	const n = 256
	ctx := context.Background()
	open := func(b *testing.B) *sqlite.Store {
		s, err := sqlite.Open(ctx, filepath.Join(b.TempDir(), "inventory.db"), sqlite.Config{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = s.Close() })
		for _, q := range []string{
			`CREATE TABLE t_effect (id INTEGER PRIMARY KEY, order_id TEXT, sku TEXT, qty INTEGER)`,
			`CREATE TABLE t_raw_log (consumer_group TEXT, event_id TEXT, PRIMARY KEY (consumer_group, event_id)) WITHOUT ROWID`,
		} {
			if _, err := s.DB().ExecContext(ctx, q); err != nil {
				b.Fatal(err)
			}
		}
		return s
	}
	const effect = `INSERT INTO t_effect (order_id, sku, qty) VALUES (?, ?, ?)`
	next := 0
	fill := func(items []settle.Item) {
		for i := range items {
			next++
			now := time.Now()
			e := &settle.Event{
				ID: settle.NewID(), Type: "order.created", AggregateType: "order", AggregateID: fmt.Sprintf("order-%08d", next), AggregateSeq: 1,
				AppendedAt: now, OccurredAt: now, Payload: make([]byte, 400),
			}
			items[i] = settle.Item{Attempt: 1, Record: settle.Record{Event: e, Raw: e.Payload, Key: e.AggregateID, Position: int64(next)}}
		}
	}
	report := func(b *testing.B) { b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "events/s") }

	b.Run("raw", func(b *testing.B) {
		s := open(b)
		items := make([]settle.Item, n)
		for b.Loop() {
			b.StopTimer()
			fill(items)
			b.StartTimer()
			tx, err := s.Begin(ctx)
			if err != nil {
				b.Fatal(err)
			}
			for i := range items {
				e := items[i].Record.Event
				if _, err := tx.ExecContext(ctx, `INSERT INTO t_raw_log VALUES (?, ?)`, "inventory", e.ID); err != nil {
					b.Fatal(err)
				}
				if _, err := tx.ExecContext(ctx, effect, e.AggregateID, "sku-1", i); err != nil {
					b.Fatal(err)
				}
			}
			if err := tx.Commit(); err != nil {
				b.Fatal(err)
			}
		}
		report(b)
	})
	apply := func(b *testing.B, waiting int) {
		s := open(b)
		in := s.Inbox()
		for i := range waiting {
			it := make([]settle.Item, 1)
			fill(it)
			it[0].Intent, it[0].Record.Event.AggregateID = settle.IntentPark, fmt.Sprint("stuck-", i%10)
			if _, err := in.Apply(ctx, settle.Work{Group: "inventory", Items: it}, nil); err != nil {
				b.Fatal(err)
			}
		}
		claims, err := in.Claim(ctx, settle.ClaimRequest{Group: "inventory", Topic: "t", Owner: "x", Partitions: 1, TTL: time.Hour})
		if err != nil {
			b.Fatal(err)
		}
		items := make([]settle.Item, n)
		for b.Loop() {
			b.StopTimer()
			fill(items)
			b.StartTimer()
			w := settle.Work{Group: "inventory", Items: items, Floors: []settle.FloorMove{{
				Partition: claims[0].Partition, To: settle.Floor{Generation: "g", Position: int64(next), EventID: items[n-1].Record.Event.ID},
			}}}
			r, err := in.Apply(ctx, w, func(ctx context.Context, tx *sql.Tx, i int) error {
				_, err := tx.ExecContext(ctx, effect, items[i].Record.Event.AggregateID, "sku-1", i)
				return err
			})
			if err != nil || r[n-1].Verdict != settle.VerdictApplied {
				b.Fatal(r, err)
			}
		}
		report(b)
	}
	b.Run("apply", func(b *testing.B) { apply(b, 0) })
	b.Run("apply while 200 events of 10 keys wait", func(b *testing.B) { apply(b, 200) })
}
