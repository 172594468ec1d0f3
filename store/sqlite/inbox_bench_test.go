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

const (
	benchBatch  = 256
	benchEffect = `INSERT INTO t_effect (order_id, sku, qty) VALUES (?, ?, ?)`
)

// BenchmarkInbox compares Apply with what any consumer must write: one log row
// and one row of the business for each event, in one transaction of 256.
func BenchmarkInbox(b *testing.B) {
	b.Run("raw", benchRaw)
	b.Run("apply", func(b *testing.B) { benchApply(b, 0) })
	b.Run("apply while 200 events of 10 keys wait", func(b *testing.B) { benchApply(b, 200) })
}

func benchOpen(b *testing.B) *sqlite.Store {
	ctx := context.Background()
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

// benchFill makes items of new events, the first of which has this number.
func benchFill(items []settle.Item, first int) {
	now := time.Now()
	for i := range items {
		e := &settle.Event{
			ID: settle.NewID(), Type: "order.created", AggregateType: "order", AggregateID: fmt.Sprintf("order-%08d", first+i), AggregateSeq: 1,
			AppendedAt: now, OccurredAt: now, Payload: make([]byte, 400),
		}
		items[i] = settle.Item{Attempt: 1, Record: settle.Record{Event: e, Raw: e.Payload, Key: e.AggregateID, Position: int64(first + i)}}
	}
}

// benchLoop runs one transaction after another, the making of events not counted.
func benchLoop(b *testing.B, run func(items []settle.Item, last int)) {
	items := make([]settle.Item, benchBatch)
	next := 1
	for b.Loop() {
		b.StopTimer()
		benchFill(items, next)
		next += benchBatch
		b.StartTimer()
		run(items, next-1)
	}
	b.ReportMetric(float64(benchBatch*b.N)/b.Elapsed().Seconds(), "events/s")
}

func benchRaw(b *testing.B) {
	ctx := context.Background()
	s := benchOpen(b)
	benchLoop(b, func(items []settle.Item, _ int) {
		tx, err := s.Begin(ctx)
		if err != nil {
			b.Fatal(err)
		}
		for i := range items {
			e := items[i].Record.Event
			if _, err := tx.ExecContext(ctx, `INSERT INTO t_raw_log VALUES (?, ?)`, "inventory", e.ID); err != nil {
				b.Fatal(err)
			}
			if _, err := tx.ExecContext(ctx, benchEffect, e.AggregateID, "sku-1", i); err != nil {
				b.Fatal(err)
			}
		}
		if err := tx.Commit(); err != nil {
			b.Fatal(err)
		}
	})
}

func benchApply(b *testing.B, waiting int) {
	ctx := context.Background()
	in := benchOpen(b).Inbox()
	stuck := make([]settle.Item, waiting)
	benchFill(stuck, 1)
	for i := range stuck {
		stuck[i].Intent, stuck[i].Record.Event.AggregateID = settle.IntentPark, fmt.Sprint("stuck-", i%10)
	}
	if _, err := in.Apply(ctx, settle.Work{Group: "inventory", Items: stuck}, nil); err != nil {
		b.Fatal(err)
	}
	claims, err := in.Claim(ctx, settle.ClaimRequest{Group: "inventory", Topic: "t", Owner: "x", Partitions: 1, TTL: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	benchLoop(b, func(items []settle.Item, last int) {
		w := settle.Work{Group: "inventory", Items: items, Floors: []settle.FloorMove{{
			Partition: claims[0].Partition, To: settle.Floor{Generation: "g", Position: int64(last), EventID: items[benchBatch-1].Record.Event.ID},
		}}}
		r, err := in.Apply(ctx, w, func(ctx context.Context, tx *sql.Tx, i int) error {
			_, err := tx.ExecContext(ctx, benchEffect, items[i].Record.Event.AggregateID, "sku-1", i)
			return err
		})
		if err != nil || r[benchBatch-1].Verdict != settle.VerdictApplied {
			b.Fatal(r, err)
		}
	})
}
