package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

// Each benchmark has a raw twin: what one would write by hand on the same
// driver with the same durability. Read them side by side.

const benchFill = `INSERT INTO t_outbox_event (event_id, event_type, aggregate_type, aggregate_id, payload)
SELECT gen_random_uuid()::text, 'order.created', 'order', 'order-' || i % 5000, convert_to(repeat('x', 256), 'UTF8') FROM generate_series(1, $1::int) i`

func benchFilled(b *testing.B, n int) *Store {
	b.Helper()
	s := OpenForTest(b, DatabaseForTest(b), Config{})
	if _, err := s.own.Exec(b.Context(), benchFill, n); err != nil {
		b.Fatal(err)
	}
	if _, err := s.own.Exec(b.Context(), `VACUUM ANALYZE t_outbox_event`); err != nil {
		b.Fatal(err)
	}
	return s
}

func perEvent(b *testing.B, size int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/event")
}

func BenchmarkAppend(b *testing.B) {
	payload := []byte(`"` + strings.Repeat("x", 254) + `"`)
	events := func(n int) []*settle.Event {
		all := make([]*settle.Event, n)
		for i := range all {
			all[i] = &settle.Event{Type: "order.created", AggregateID: "k", Payload: payload}
		}
		return all
	}
	for _, size := range []int{1, 64} {
		s := OpenForTest(b, DatabaseForTest(b), Config{})
		b.Run(fmt.Sprintf("sql/%d", size), func(b *testing.B) {
			for b.Loop() {
				tx, err := s.Begin(b.Context())
				if err == nil {
					err = s.Append(b.Context(), tx, events(size)...)
				}
				if err == nil {
					err = tx.Commit()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			perEvent(b, size)
		})
		b.Run(fmt.Sprintf("pgx/%d", size), func(b *testing.B) {
			for b.Loop() {
				err := pgx.BeginFunc(b.Context(), s.business, func(tx pgx.Tx) error { return s.Pgx().Append(b.Context(), tx, events(size)...) })
				if err != nil {
					b.Fatal(err)
				}
			}
			perEvent(b, size)
		})
	}
}

func BenchmarkPoll(b *testing.B) {
	const rows, total = 500, 50_000
	s := benchFilled(b, total)
	l := s.Log()
	for _, c := range []struct {
		name        string
		holes, step int
	}{{"no holes", 0, 0}, {"1000 holes alone", 1000, 2}, {"a bulk insert of 50000 open", 50_000, 1}} {
		ids := make([]int64, c.holes)
		for i := range ids {
			ids[i] = int64((i - c.holes) * c.step)
		}
		b.Run("store/"+c.name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				p, err := l.Poll(b.Context(), relay.PollQuery{After: int64(i * rows % (total - rows)), MaxRows: rows, MaxBytes: 1 << 20, Holes: ids})
				if err != nil || len(p.Rows) != rows {
					b.Fatal(len(p.Rows), err)
				}
			}
			perEvent(b, rows)
		})
	}
	b.Run("raw", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			var v eventRow
			rs, err := s.own.Query(b.Context(), `SELECT `+rowColumns+` FROM t_outbox_event e WHERE e.id > $1 ORDER BY e.id LIMIT $2`, int64(i*rows%(total-rows)), rows)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := pgx.ForEachRow(rs, v.into(), func() error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
		perEvent(b, rows)
	})
}

// taker acknowledges whatever it is given.
type taker struct {
	n    atomic.Int64
	want int64
	done chan struct{}
}

func (k *taker) Publish(_ context.Context, batch []settle.Message) []settle.Receipt {
	receipts := make([]settle.Receipt, len(batch))
	n := k.n.Load()
	for i, m := range batch {
		receipts[i].At = settle.Coordinates{Topic: m.Event.Topic, Offset: n + int64(i)}
	}
	if k.n.Add(int64(len(batch))) == k.want {
		close(k.done)
	}
	return receipts
}

const walPosition = `SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn`

// BenchmarkDrain has a backlog carried away by the whole relay, into nothing.
func BenchmarkDrain(b *testing.B) {
	const total = 100_000
	for b.Loop() {
		b.StopTimer()
		s := benchFilled(b, total)
		var before, after float64
		if err := s.own.QueryRow(b.Context(), walPosition).Scan(&before); err != nil {
			b.Fatal(err)
		}
		k := &taker{want: total, done: make(chan struct{})}
		ctx, cancel := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		r := relay.New(s.Log(), k, relay.Config{BatchRows: 1000})
		b.StartTimer()
		go func() { ended <- r.Run(ctx) }()
		<-k.done
		cancel()
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := s.own.QueryRow(b.Context(), walPosition).Scan(&after); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric((after-before)/total, "WAL-bytes/event")
		b.StartTimer()
	}
	perEvent(b, total)
	b.ReportMetric(float64(b.N*total)/b.Elapsed().Seconds(), "events/s")
}
