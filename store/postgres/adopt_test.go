package postgres_test

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/postgres"
)

// classicTable is the layout that tutorials teach and services have.
const classicTable = `CREATE TABLE t_outbox_event (id BIGSERIAL PRIMARY KEY, event_id VARCHAR(64) NOT NULL UNIQUE, aggregate_type VARCHAR(64) NOT NULL, aggregate_id VARCHAR(64) NOT NULL,
 event_type VARCHAR(64) NOT NULL, payload JSONB NOT NULL, headers JSONB, status VARCHAR(16) NOT NULL, retry_count INT NOT NULL DEFAULT 0,
 next_retry_time TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, last_error TEXT, created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP);
CREATE INDEX idx_outbox_status_retry ON t_outbox_event (status, next_retry_time, id)`

// classic is a service that had an outbox before Settle.
type classic struct {
	t testing.TB
	// at is the URL of Settle's schema, beside the service's own.
	at, schema string
	conn       *pgx.Conn
}

// newClassic makes the service's schema with its tables.
func newClassic(t testing.TB, tables string) *classic {
	t.Helper()
	own, at := postgres.DatabaseForTest(t), postgres.DatabaseForTest(t)
	u, err := url.Parse(own)
	if err != nil {
		t.Fatal(err)
	}
	c := &classic{t: t, at: at, schema: u.Query().Get("search_path")}
	if c.conn, err = pgx.Connect(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.conn.Close(context.Background()) })
	c.exec("CREATE SCHEMA " + c.schema)
	c.exec(tables)
	return c
}

func (c *classic) exec(query string, args ...any) {
	c.t.Helper()
	if _, err := c.conn.Exec(context.Background(), query, args...); err != nil {
		c.t.Fatalf("%v\n%s", err, query)
	}
}

func (c *classic) table() string { return c.schema + ".t_outbox_event" }

// insert stores events first to last of ten keys, as the service does.
func (c *classic) insert(first, last int, status string) {
	c.t.Helper()
	c.exec(`INSERT INTO t_outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, headers, status)
SELECT 'e-' || g, 'order', 'o-' || g % 10, 'order.created', jsonb_build_object('eventId', 'e-' || g, 'eventType', 'order.created', 'aggregateType', 'order',
 'aggregateId', 'o-' || g % 10, 'bizKey', 'b-' || g, 'occurredAt', '2026-01-02T03:04:05Z', 'traceId', 't-' || g, 'version', 1, 'payload', jsonb_build_object('n', g, 'amount', 199.00)),
 '{"source": "order-service"}', $3 FROM generate_series($1::int, $2::int) g`, first, last, status)
}

func (c *classic) adopt(cfg migrate.AdoptConfig) migrate.AdoptPlan {
	c.t.Helper()
	p, err := c.tryAdopt(cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	return p
}

func (c *classic) tryAdopt(cfg migrate.AdoptConfig) (migrate.AdoptPlan, error) {
	if cfg.Table == "" {
		cfg.Table = c.table()
	}
	a, err := postgres.NewAdopt(c.at, cfg)
	if err != nil {
		return migrate.AdoptPlan{}, err
	}
	return a.Run(context.Background())
}

// statuses counts the rows of each status.
func (c *classic) statuses() string {
	c.t.Helper()
	var all string
	if err := c.conn.QueryRow(context.Background(), `SELECT coalesce(string_agg(status || ' ' || n, ', ' ORDER BY status), '') FROM (SELECT status, count(*) AS n FROM t_outbox_event GROUP BY status) s`).Scan(&all); err != nil {
		c.t.Fatal(err)
	}
	return all
}

// relaying is a relay of Settle's on the adopted table.
type relaying struct {
	t      testing.TB
	broker *memory.Broker
	store  *postgres.Store
	stop   func()
}

func (c *classic) relay(b *memory.Broker, cfg relay.Config) *relaying {
	c.t.Helper()
	r := &relaying{t: c.t, broker: b, store: postgres.OpenForTest(c.t, c.at, postgres.Config{})}
	if cfg.SweepEvery == 0 {
		cfg.SweepEvery = 100 * time.Millisecond
	}
	if cfg.HoleAge == 0 {
		cfg.HoleAge = 50 * time.Millisecond
	}
	ctx, cancel := context.WithCancel(context.Background())
	run, done := relay.New(r.store.Log(), b, cfg), make(chan error, 1)
	go func() { done <- run.Run(ctx) }()
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("relay: %v", err)
		}
	}
	c.t.Cleanup(r.stop)
	return r
}

func newMemory(t testing.TB) *memory.Broker {
	b := memory.New(memory.Config{})
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// eventually waits for something that must come true, and tells what is there
// if it does not.
func eventually(t testing.TB, what string, is func() (string, bool)) {
	t.Helper()
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		got, ok := is()
		if ok {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%s: there is %s", what, got)
		}
	}
}

func (r *relaying) sends(n int) []settle.Record {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%d events are sent", n), func() (string, bool) {
		sent := len(r.broker.Log(settle.DefaultTopic))
		return fmt.Sprint(sent), sent >= n
	})
	return r.broker.Log(settle.DefaultTopic)
}

func (c *classic) becomes(want string) {
	c.t.Helper()
	eventually(c.t, "the statuses become "+want, func() (string, bool) {
		got := c.statuses()
		return got, got == want
	})
}
