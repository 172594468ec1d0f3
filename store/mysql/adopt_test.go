package mysql_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/mysql"
)

// classicTable is the layout that tutorials teach and services have.
const classicTable = `CREATE TABLE t_outbox_event (id BIGINT AUTO_INCREMENT PRIMARY KEY, event_id VARCHAR(64) NOT NULL UNIQUE, aggregate_type VARCHAR(64) NOT NULL, aggregate_id VARCHAR(64) NOT NULL,
 event_type VARCHAR(64) NOT NULL, payload JSON NOT NULL, headers JSON, status VARCHAR(16) NOT NULL, retry_count INT NOT NULL DEFAULT 0,
 next_retry_time DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP, last_error TEXT, created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP, updated_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
 KEY idx_outbox_status_retry (status, next_retry_time, id)) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci`

// withoutIndex is that table with no index that begins with the status.
func withoutIndex() string {
	return strings.Replace(classicTable, ",\n KEY idx_outbox_status_retry (status, next_retry_time, id)", "", 1)
}

// classic is a service that had an outbox before Settle.
type classic struct {
	t testing.TB
	// at is the URL of the service's database; own names Settle's beside it.
	at, database, own string
	db                *sql.DB
}

// newClassic makes the service's database with its tables. Statements are
// divided by semicolons.
func newClassic(t testing.TB, tables string) *classic {
	t.Helper()
	c := &classic{t: t, at: mysql.DatabaseForTest(t)}
	u, err := url.Parse(c.at)
	if err != nil {
		t.Fatal(err)
	}
	c.database = u.Path[1:]
	c.own = c.database + "_settle"
	c.db = c.connect()
	t.Cleanup(func() {
		c.exec("DROP DATABASE IF EXISTS " + c.own)
		_ = c.db.Close()
	})
	for statement := range strings.SplitSeq(tables, ";") {
		if statement != "" {
			c.exec(statement)
		}
	}
	return c
}

// connect opens a pool of the service's own, whose sessions are as the server
// makes them.
func (c *classic) connect() *sql.DB {
	c.t.Helper()
	u, err := url.Parse(c.at)
	if err != nil {
		c.t.Fatal(err)
	}
	password, _ := u.User.Password()
	db, err := sql.Open("mysql", fmt.Sprintf("%s:%s@tcp(%s)%s?interpolateParams=true", u.User.Username(), password, u.Host, u.Path))
	if err != nil {
		c.t.Fatal("the URL can't be opened")
	}
	return db
}

func (c *classic) exec(query string, args ...any) {
	c.t.Helper()
	if _, err := c.db.ExecContext(context.Background(), query, args...); err != nil {
		c.t.Fatalf("%v\n%s", err, query)
	}
}

func (c *classic) table() string { return c.database + ".t_outbox_event" }

// settle is the URL of Settle's own database.
func (c *classic) settle() string { return strings.Replace(c.at, c.database, c.own, 1) }

// upTo counts from the first to the last of two numbers.
const upTo = `(SELECT g FROM (SELECT a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n + 100000 * f.n AS g FROM %[1]s a, %[1]s b, %[1]s c, %[1]s d, %[1]s e, (SELECT 0 n UNION SELECT 1) f) all_of_them WHERE g BETWEEN ? AND ? ORDER BY g) g`

var numbersFrom = fmt.Sprintf(upTo, `(SELECT 0 n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5 UNION SELECT 6 UNION SELECT 7 UNION SELECT 8 UNION SELECT 9)`)

// insert stores events first to last of ten keys, as the service does.
func (c *classic) insert(first, last int, status string) {
	c.t.Helper()
	c.exec(`INSERT INTO t_outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, headers, status)
SELECT CONCAT('e-', g), 'order', CONCAT('o-', g % 10), 'order.created', CONCAT('{"eventId":"e-', g, '","eventType":"order.created","aggregateType":"order","aggregateId":"o-', g % 10,
 '","bizKey":"b-', g, '","occurredAt":"2026-01-02T03:04:05Z","traceId":"t-', g, '","version":1,"payload":{"n":', g, ',"amount":199.00}}'), '{"source": "order-service"}', ? FROM `+numbersFrom, status, first, last)
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
	a, err := mysql.NewAdopt(c.at, cfg)
	if err != nil {
		return migrate.AdoptPlan{}, err
	}
	return a.Run(context.Background())
}

// statuses counts the rows of each status.
func (c *classic) statuses() string {
	c.t.Helper()
	var all string
	if err := c.db.QueryRowContext(context.Background(), `SELECT coalesce(group_concat(status, ' ', n ORDER BY CAST(status AS CHAR) SEPARATOR ', '), '') FROM (SELECT status, count(*) AS n FROM t_outbox_event GROUP BY status) s`).Scan(&all); err != nil {
		c.t.Fatal(err)
	}
	return all
}

// relaying is a relay of Settle's on the adopted table.
type relaying struct {
	t      testing.TB
	broker *memory.Broker
	store  *mysql.Store
	stop   func()
}

func (c *classic) relay(b *memory.Broker, cfg relay.Config) *relaying {
	c.t.Helper()
	r := &relaying{t: c.t, broker: b, store: mysql.OpenForTest(c.t, c.settle(), mysql.Config{})}
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
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
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
