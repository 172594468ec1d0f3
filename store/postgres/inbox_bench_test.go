package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/postgres"
)

const (
	benchBatch  = 256
	benchEffect = `INSERT INTO t_effect (order_id, sku, qty) VALUES ($1, $2, $3)`
	benchLog    = `INSERT INTO t_raw_log VALUES ($1, $2) ON CONFLICT DO NOTHING`
)

// BenchmarkInbox compares Apply with what consumers do without it: one
// transaction for each message, and everything in two statements for 256. Each
// event has a log row and one row of the business.
func BenchmarkInbox(b *testing.B) {
	b.Run("raw batched upserts", benchRaw)
	b.Run("one transaction per message", benchSingles)
	b.Run("apply", func(b *testing.B) { benchApply(b, benchEach) })
	b.Run("apply with a batch handler", func(b *testing.B) { benchApply(b, benchMany) })
	b.Run("apply while 200 events of 10 keys wait", func(b *testing.B) {
		benchApply(b, func(b *testing.B, s *postgres.Store) (settle.Work, worker) {
			benchPark(b, s)
			return benchEach(b, s)
		})
	})
	b.Run("apply with a failure in each batch", func(b *testing.B) { benchApply(b, benchFailing) })
}

func benchOpen(b *testing.B) *postgres.Store {
	s := postgres.OpenForTest(b, postgres.DatabaseForTest(b), postgres.Config{})
	for _, q := range []string{
		`CREATE TABLE t_effect (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, order_id text, sku text, qty integer)`,
		`CREATE TABLE t_raw_log (consumer_group text, event_id text, PRIMARY KEY (consumer_group, event_id))`,
	} {
		if _, err := s.DB().ExecContext(b.Context(), q); err != nil {
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

// benchLoop runs one batch after another, the making of events not counted.
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

func benchTx(b *testing.B, s *postgres.Store, f func(tx *sql.Tx) error) {
	tx, err := s.Begin(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	if err := f(tx); err != nil {
		b.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
}

func benchRaw(b *testing.B) {
	s := benchOpen(b)
	benchLoop(b, func(items []settle.Item, _ int) {
		ids, orders := make([]string, len(items)), make([]string, len(items))
		for i := range items {
			ids[i], orders[i] = items[i].Record.Event.ID, items[i].Record.Event.AggregateID
		}
		benchTx(b, s, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(b.Context(), `INSERT INTO t_raw_log SELECT 'inventory', unnest($1::text[]) ON CONFLICT DO NOTHING`, ids)
			if err == nil {
				_, err = tx.ExecContext(b.Context(), `INSERT INTO t_effect (order_id, sku, qty) SELECT unnest($1::text[]), 'sku-1', 1`, orders)
			}
			return err
		})
	})
}

func benchSingles(b *testing.B) {
	s := benchOpen(b)
	benchLoop(b, func(items []settle.Item, _ int) {
		for i := range items {
			e := items[i].Record.Event
			benchTx(b, s, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(b.Context(), benchLog, "inventory", e.ID)
				if err == nil {
					_, err = tx.ExecContext(b.Context(), benchEffect, e.AggregateID, "sku-1", i)
				}
				return err
			})
		}
	})
}

// worker is a handler that is told which items it is called for.
type worker func(items []settle.Item) func(ctx context.Context, tx *sql.Tx, i int) error

func benchEach(*testing.B, *postgres.Store) (settle.Work, worker) {
	return settle.Work{Group: "inventory"}, func(items []settle.Item) func(context.Context, *sql.Tx, int) error {
		return func(ctx context.Context, tx *sql.Tx, i int) error {
			_, err := tx.ExecContext(ctx, benchEffect, items[i].Record.Event.AggregateID, "sku-1", i)
			return err
		}
	}
}

func benchMany(*testing.B, *postgres.Store) (settle.Work, worker) {
	var orders []string
	var in *sql.Tx
	w := settle.Work{Group: "inventory", BeforeCommit: func(ctx context.Context) error {
		_, err := in.ExecContext(ctx, `INSERT INTO t_effect (order_id, sku, qty) SELECT unnest($1::text[]), 'sku-1', 1`, orders)
		orders = orders[:0]
		return err
	}}
	return w, func(items []settle.Item) func(context.Context, *sql.Tx, int) error {
		return func(_ context.Context, tx *sql.Tx, i int) error {
			in, orders = tx, append(orders, items[i].Record.Event.AggregateID)
			return nil
		}
	}
}

// benchFailing fails for the event in the middle of each batch.
func benchFailing(b *testing.B, s *postgres.Store) (settle.Work, worker) {
	w, each := benchEach(b, s)
	return w, func(items []settle.Item) func(context.Context, *sql.Tx, int) error {
		handle := each(items)
		return func(ctx context.Context, tx *sql.Tx, i int) error {
			if i == benchBatch/2 {
				return errors.New("not wanted")
			}
			return handle(ctx, tx, i)
		}
	}
}

func benchPark(b *testing.B, s *postgres.Store) {
	stuck := make([]settle.Item, 200)
	benchFill(stuck, 1)
	for i := range stuck {
		stuck[i].Intent, stuck[i].Record.Event.AggregateID = settle.IntentPark, fmt.Sprint("stuck-", i%10)
	}
	if _, err := s.Inbox().Apply(b.Context(), settle.Work{Group: "inventory", Items: stuck}, nil); err != nil {
		b.Fatal(err)
	}
}

func benchApply(b *testing.B, make func(*testing.B, *postgres.Store) (settle.Work, worker)) {
	ctx := b.Context()
	s := benchOpen(b)
	in := s.Inbox()
	w, each := make(b, s)
	claims, err := in.Claim(ctx, settle.ClaimRequest{Group: "inventory", Topic: "t", Owner: "x", Partitions: 1, TTL: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	benchLoop(b, func(items []settle.Item, last int) {
		w.Items = items
		w.Floors = []settle.FloorMove{{
			Partition: claims[0].Partition, To: settle.Floor{Generation: "g", Position: int64(last), EventID: items[benchBatch-1].Record.Event.ID},
		}}
		r, err := in.Apply(ctx, w, each(items))
		if err != nil || r[benchBatch-1].Verdict != settle.VerdictApplied {
			b.Fatal(r, err)
		}
	})
}
