package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

// Each benchmark has a raw twin: the same statements by hand on the same
// driver with the same durability. Read them side by side.

func benchStore(b *testing.B) *Store {
	b.Helper()
	s, err := Open(b.Context(), filepath.Join(b.TempDir(), "bench.db"), Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

var benchPayload = []byte(`{"note":"` + strings.Repeat("x", 380) + `"}`)

func benchEvents(n, from int) []*settle.Event {
	events := make([]*settle.Event, n)
	for i := range events {
		events[i] = &settle.Event{
			Type: "order.created", AggregateType: "order", AggregateID: fmt.Sprintf("order-%08d", from+i), AggregateSeq: 1, Payload: benchPayload,
		}
	}
	return events
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1, 64} {
		b.Run(fmt.Sprintf("store/%d", size), func(b *testing.B) {
			s := benchStore(b)
			for i := 0; b.Loop(); i++ {
				if err := inTx(b.Context(), s, func(tx *sql.Tx) error { return s.Append(b.Context(), tx, benchEvents(size, i*size)...) }); err != nil {
					b.Fatal(err)
				}
			}
			perEvent(b, size)
		})
		b.Run(fmt.Sprintf("raw/%d", size), func(b *testing.B) { rawAppend(b, size) })
	}
}

// rawAppend is what one would write by hand: a prepared insert per event.
func rawAppend(b *testing.B, size int) {
	s := benchStore(b)
	insert, err := s.writer.Prepare(insertEvents + eventValues)
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		err := inTx(b.Context(), s, func(tx *sql.Tx) error {
			stmt := tx.Stmt(insert)
			for _, e := range benchEvents(size, i*size) {
				if err := e.Prepare(time.Now()); err != nil {
					return err
				}
				if _, err := stmt.Exec(e.ID, e.Type, e.AggregateType, e.AggregateID, e.AggregateSeq, nil, nil, nil, nil, e.Topic, e.Version,
					e.ContentType, e.OccurredAt.UnixMicro(), e.AppendedAt.UnixMicro(), nil, nil, e.Payload); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	perEvent(b, size)
}

func perEvent(b *testing.B, size int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/event")
}

func filled(b *testing.B, n int) *Store {
	s := benchStore(b)
	for i := 0; i < n; i += 1000 {
		if err := inTx(b.Context(), s, func(tx *sql.Tx) error { return s.Append(b.Context(), tx, benchEvents(1000, i)...) }); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

func BenchmarkPoll(b *testing.B) {
	const rows = 500
	s := filled(b, 20_000)
	l := s.Log()
	b.Run("store", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			p, err := l.Poll(b.Context(), relay.PollQuery{After: int64(i * rows % 19_000), MaxRows: rows, MaxBytes: 1 << 20})
			if err != nil || len(p.Rows) != rows {
				b.Fatal(len(p.Rows), err)
			}
		}
		perEvent(b, rows)
	})
	b.Run("raw driver", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			n := 0
			err := s.read(b.Context(), func(c *conn) error {
				return c.each(pollAbove, args(int64(i*rows%19_000), int64(maxID), int64(rows)), func([]driver.Value) bool { n++; return true })
			})
			if err != nil || n != rows {
				b.Fatal(n, err)
			}
		}
		perEvent(b, rows)
	})
	b.Run("raw database-sql", func(b *testing.B) { rawScan(b, s, rows) })
	b.Run("idle", func(b *testing.B) {
		for b.Loop() {
			if _, err := l.Poll(b.Context(), relay.PollQuery{After: 20_000, MaxRows: rows, MaxBytes: 1 << 20}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func rawScan(b *testing.B, s *Store, want int) {
	stmt, err := s.reader.Prepare(pollAbove)
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		rows, err := stmt.QueryContext(context.Background(), int64(i*want%19_000), maxID, want)
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		for rows.Next() {
			var e settle.Event
			var id, occurred, appended int64
			var biz, trace, cause, sup, headers sql.NullString
			var notBefore sql.NullInt64
			if err := rows.Scan(&id, &e.ID, &e.Type, &e.AggregateType, &e.AggregateID, &e.AggregateSeq, &biz, &trace, &cause, &sup, &e.Topic,
				&e.Version, &e.ContentType, &occurred, &appended, &notBefore, &headers, &e.Payload); err != nil {
				b.Fatal(err)
			}
			n++
		}
		if err := rows.Close(); err != nil || n != want {
			b.Fatal(n, err)
		}
	}
	perEvent(b, want)
}

func BenchmarkCommit(b *testing.B) {
	const rows = 500
	s := benchStore(b)
	l := s.Log()
	lease, err := l.Lead(b.Context(), "me", 0, time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	sent := make([]relay.Sent, rows)
	b.Run("store", func(b *testing.B) {
		number, id := int64(1), int64(0)
		for b.Loop() {
			for i := range sent {
				id++
				sent[i] = relay.Sent{ID: id, EventID: "e", Destination: "t", At: settle.Coordinates{Topic: "t", Partition: i % 16, Offset: id}, SentAt: time.Now()}
			}
			f := relay.Flush{Checkpoint: relay.Checkpoint{Number: number, Readers: []relay.Reader{{Cursor: id}}}, Sent: sent}
			if err := l.Commit(b.Context(), lease, f); err != nil {
				b.Fatal(err)
			}
			number++
		}
		perEvent(b, rows)
	})
	b.Run("raw one row", func(b *testing.B) {
		if _, err := s.DB().Exec("CREATE TABLE raw (a INTEGER PRIMARY KEY, b TEXT)"); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if err := inTx(b.Context(), s, func(tx *sql.Tx) error { _, err := tx.Exec("INSERT INTO raw (b) VALUES ('x')"); return err }); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkView(b *testing.B) {
	const rows = 20_000
	s := filled(b, rows)
	l := s.Log()
	lease, err := l.Lead(b.Context(), "me", 0, time.Hour)
	if err != nil {
		b.Fatal(err)
	}
	r := relay.Reader{Cursor: rows / 2}
	for id := int64(1); id < rows/2; id += 100 {
		r.Open = append(r.Open, id)
	}
	if err := l.Commit(b.Context(), lease, relay.Flush{Checkpoint: relay.Checkpoint{Number: 1, Readers: []relay.Reader{r}}}); err != nil {
		b.Fatal(err)
	}
	for name, query := range map[string]string{
		"count by status": "SELECT count(*) FROM (SELECT status, count(*) FROM v_outbox_event GROUP BY status)",
		"one event":       "SELECT count(status) FROM v_outbox_event WHERE event_id = (SELECT event_id FROM t_outbox_event WHERE id = 777)",
		"one aggregate":   "SELECT count(status) FROM v_outbox_event WHERE aggregate_id = 'order-00000777'",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				var n int
				if err := s.Reader().QueryRowContext(b.Context(), query).Scan(&n); err != nil || n == 0 {
					b.Fatal(n, err)
				}
			}
		})
	}
}
