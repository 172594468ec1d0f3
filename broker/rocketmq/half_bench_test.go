package rocketmq_test

import (
	"context"
	"database/sql"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/txmsg"
)

const benchOrder = `INSERT INTO bench_order (id) VALUES ($1)`

// BenchmarkHalfMessages compares a send with what it consists of, without the
// record: a half message, a transaction that inserts one row, an end.
func BenchmarkHalfMessages(b *testing.B) {
	at, s := benchServers(b)
	r := newRig(b, at)
	h := r.halves(b, "half-"+settle.NewID())
	sender := txmsg.New(s.Halves(), h, txmsg.Config{})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- sender.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		<-done
	})
	event := func() *settle.Event {
		return &settle.Event{Type: "order.created", AggregateID: settle.NewID(), Topic: r.topic, Payload: []byte(`{"amount":"11.77","note":"` + strings.Repeat("x", 300) + `"}`)}
	}
	raw := func(e *settle.Event) error {
		if err := e.Prepare(time.Now()); err != nil {
			return err
		}
		at, err := h.Half(ctx, txmsg.Half{ID: "raw." + e.ID, Message: settle.Message{ID: e.ID, Event: e}})
		if err != nil {
			return err
		}
		tx, err := s.Begin(ctx)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, benchOrder, e.AggregateID); err != nil {
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		return h.End(ctx, at, txmsg.Commit)
	}
	whole := func(e *settle.Event) error {
		_, err := sender.Send(ctx, e, func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, benchOrder, e.AggregateID)
			return err
		})
		return err
	}
	for _, c := range []struct {
		name string
		send func(*settle.Event) error
	}{{"raw", raw}, {"txmsg", whole}, {"raw again", raw}, {"txmsg again", whole}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetParallelism(16)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if err := c.send(event()); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sends/s")
		})
	}
}

// benchServers returns the URL of a broker, and a schema with one table.
func benchServers(b *testing.B) (at string, s *postgres.Store) {
	b.Helper()
	at = os.Getenv("SETTLE_TEST_ROCKETMQ")
	database := os.Getenv("SETTLE_TEST_POSTGRES")
	if at == "" || database == "" {
		b.Skip("SETTLE_TEST_ROCKETMQ or SETTLE_TEST_POSTGRES is not set")
	}
	schema := "half_bench"
	mark := "?"
	if strings.Contains(database, "?") {
		mark = "&"
	}
	s, err := postgres.Open(b.Context(), database+mark+"search_path="+schema, postgres.Config{MaxConns: 32})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := s.DB().Exec(`CREATE TABLE bench_order (id text PRIMARY KEY)`); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_, _ = s.DB().Exec(`DROP SCHEMA ` + schema + ` CASCADE`)
		_ = s.Close()
	})
	return at, s
}
