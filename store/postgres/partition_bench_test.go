package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/relay"
)

// retainedRows are what BenchmarkRetention has deleted.
const retainedRows = 1_000_000

const (
	benchDone = `INSERT INTO t_outbox_event (event_id, event_type, aggregate_type, aggregate_id, payload, appended_at)
SELECT gen_random_uuid()::text, 'order.created', 'order', 'order-' || i % 5000, convert_to(repeat('x', 256), 'UTF8'), now() - interval '2 hours' FROM generate_series(1, $1::int) i`

	benchLeft = `SELECT coalesce(sum(pg_stat_get_dead_tuples(c.oid)), 0)::bigint, sum(pg_total_relation_size(c.oid))::bigint
FROM pg_class c WHERE c.oid = 't_outbox_event'::regclass OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 't_outbox_event'::regclass)`
)

// BenchmarkRetention deletes a million rows that are done, one by one and a
// partition at a time, while somebody inserts. Give it a server of its own: WAL
// is counted of all that the server does.
func BenchmarkRetention(b *testing.B) {
	for _, c := range []struct {
		name  string
		width int64
	}{{"row by row", 0}, {"ten partitions", retainedRows / 10}, {"one partition", retainedRows}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				l, lease := benchRetained(b, c.width)
				w := insertMeanwhile(b, l.s)
				calm := w.during(time.Second)
				wal := benchNumber(b, l.s, walPosition)
				before := time.Now().Add(-90 * time.Minute)
				if c.width == 0 {
					before = time.Now().Add(-time.Minute)
				}
				b.StartTimer()
				busy := w.while(func() { retainAll(b, l, lease, before) })
				b.StopTimer()
				inserts := float64(len(busy))
				b.ReportMetric((benchNumber(b, l.s, walPosition)-wal)/retainedRows, "WAL-bytes/row")
				b.ReportMetric(inserts, "inserts-meanwhile")
				b.ReportMetric(highest(calm), "longest-insert-before-ms")
				b.ReportMetric(highest(busy), "longest-insert-ms")
				w.end()
				time.Sleep(2 * time.Second) // until the server's counts are told
				var dead, bytes int64
				if err := l.s.own.QueryRow(b.Context(), benchLeft).Scan(&dead, &bytes); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(dead), "dead-rows")
				b.ReportMetric(float64(bytes)/(1<<20), "MiB-left")
				wal = benchNumber(b, l.s, walPosition)
				begun := time.Now()
				if _, err := l.s.own.Exec(b.Context(), "VACUUM t_outbox_event", pgx.QueryExecModeSimpleProtocol); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(time.Since(begun).Seconds(), "vacuum-s")
				b.ReportMetric((benchNumber(b, l.s, walPosition)-wal)/retainedRows, "vacuum-WAL-bytes/row")
				b.StartTimer()
			}
		})
	}
}

// benchRetained returns an outbox with rows that are done, and who leads it.
func benchRetained(b *testing.B, width int64) (*Log, relay.Lease) {
	b.Helper()
	at := DatabaseForTest(b)
	s := OpenForTest(b, at, Config{StatementTimeout: time.Hour})
	if width > 0 {
		// What is there when it is divided stays in the lowest partition, so ids begin
		// where the first other one does.
		if _, err := s.own.Exec(b.Context(), "SELECT setval('t_outbox_event_id_seq', $1)", width-1); err != nil {
			b.Fatal(err)
		}
		PartitionForTest(b, at, width)
		repartitioned(b, at, width, retainedRows/width+1)
	}
	for range 10 {
		if _, err := s.own.Exec(b.Context(), benchDone, retainedRows/10); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := s.own.Exec(b.Context(), "VACUUM ANALYZE t_outbox_event", pgx.QueryExecModeSimpleProtocol); err != nil {
		b.Fatal(err)
	}
	if _, err := s.own.Exec(b.Context(), "CHECKPOINT", pgx.QueryExecModeSimpleProtocol); err != nil {
		b.Fatal(err)
	}
	l := s.Log()
	lease, err := l.Lead(b.Context(), "me", 0, time.Hour)
	if err != nil || !lease.Held {
		b.Fatal(lease, err)
	}
	last := int64(benchNumber(b, s, "SELECT max(id)::float8 FROM t_outbox_event"))
	if err := l.Commit(b.Context(), lease, relay.Flush{Checkpoint: relay.Checkpoint{Number: 1, Readers: []relay.Reader{{Cursor: last}}}}); err != nil {
		b.Fatal(err)
	}
	return l, lease
}

// retainAll goes on as long as something goes, as often as it can; a relay
// pauses in between.
func retainAll(b *testing.B, l *Log, lease relay.Lease, before time.Time) {
	for gone := 0; gone < retainedRows; {
		n, err := l.Retain(b.Context(), lease, before, 2000)
		if err != nil {
			b.Fatal(err)
		}
		if gone += n; n == 0 {
			l.putOff(time.Time{})
		}
	}
}

func benchNumber(b *testing.B, s *Store, query string) (n float64) {
	b.Helper()
	if err := s.own.QueryRow(b.Context(), query).Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}

// inserting are events that somebody stores one after the other, and how long
// each took.
type inserting struct {
	cancel context.CancelFunc
	group  sync.WaitGroup
	mu     sync.Mutex
	took   []time.Duration
}

func insertMeanwhile(b *testing.B, s *Store) *inserting {
	ctx, cancel := context.WithCancel(b.Context())
	w := &inserting{cancel: cancel}
	for range 2 {
		w.group.Go(func() {
			for ctx.Err() == nil {
				begun := time.Now()
				_, err := s.business.Exec(ctx, `INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload) VALUES (gen_random_uuid()::text, 'x', 'k', '{}')`)
				if err != nil && ctx.Err() == nil {
					b.Error(err)
					return
				}
				w.mu.Lock()
				w.took = append(w.took, time.Since(begun))
				w.mu.Unlock()
				time.Sleep(time.Millisecond)
			}
		})
	}
	return w
}

func (w *inserting) while(f func()) []time.Duration {
	w.mu.Lock()
	w.took = nil
	w.mu.Unlock()
	f()
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.took)
}

func (w *inserting) during(d time.Duration) []time.Duration {
	return w.while(func() { time.Sleep(d) })
}

func (w *inserting) end() {
	w.cancel()
	w.group.Wait()
}

func highest(took []time.Duration) float64 {
	if len(took) == 0 {
		return 0
	}
	return float64(slices.Max(took)) / float64(time.Millisecond)
}

// BenchmarkPollOfPartitions is what a page costs by how many partitions there
// are: the server locks each of them for each statement.
func BenchmarkPollOfPartitions(b *testing.B) {
	const rows, total = 500, 50_000
	for _, parts := range []int64{0, 10, 50, 200} {
		at := DatabaseForTest(b)
		if parts > 0 {
			PartitionForTest(b, at, total/parts)
			repartitioned(b, at, total/parts, parts)
		}
		s := OpenForTest(b, at, Config{})
		if _, err := s.own.Exec(b.Context(), benchFill, total); err != nil {
			b.Fatal(err)
		}
		if _, err := s.own.Exec(b.Context(), `VACUUM ANALYZE t_outbox_event`, pgx.QueryExecModeSimpleProtocol); err != nil {
			b.Fatal(err)
		}
		l := s.Log()
		for _, holes := range []int{0, 1000} {
			b.Run(fmt.Sprintf("%d partitions, %d holes", parts, holes), func(b *testing.B) {
				for i := 0; b.Loop(); i++ {
					after := int64(i * rows % (total - rows))
					ids := make([]int64, holes)
					for k := range ids {
						ids[k] = after - int64(2*(holes-k))
					}
					p, err := l.Poll(b.Context(), relay.PollQuery{After: after, MaxRows: rows, MaxBytes: 1 << 20, Holes: slices.DeleteFunc(ids, func(id int64) bool { return id < 1 })})
					if err != nil || len(p.Rows) == 0 {
						b.Fatal(len(p.Rows), err)
					}
				}
			})
		}
	}
}
