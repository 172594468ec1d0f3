package springcontract_test

import (
	"context"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/settlemq/settle"
)

// database is one of the test's own, which the service makes its tables in.
type database struct {
	url  *url.URL
	pool *pgxpool.Pool
}

// newDatabase makes a database that is dropped when the test ends.
func newDatabase(t *testing.T) database {
	t.Helper()
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("builds and starts a Java service; set SETTLE_TEST_ALL=1")
	}
	at := os.Getenv("SETTLE_TEST_POSTGRES")
	if at == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("SETTLE_TEST_POSTGRES is not set: export it with the URL that `scripts/services up postgres` prints")
		}
		t.Skip("SKIPPED, NOTHING OF THIS IS PROVED: SETTLE_TEST_POSTGRES is not set; `scripts/services up postgres` prints its value")
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal("SETTLE_TEST_POSTGRES can't be read")
	}
	name := "spring_" + strings.ReplaceAll(settle.NewID(), "-", "")
	onServer(t, at, "CREATE DATABASE "+name)
	t.Cleanup(func() { onServer(t, at, "DROP DATABASE "+name+" WITH (FORCE)") })
	u.Path = "/" + name
	pool, err := pgxpool.New(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return database{u, pool}
}

func onServer(t *testing.T, at, query string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, query); err != nil {
		t.Fatal(err)
	}
}

// one returns the only value that a query gives.
func one[T any](t *testing.T, d database, query string, args ...any) (v T) {
	t.Helper()
	if err := d.pool.QueryRow(t.Context(), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// events returns the text of each event's payload by its id.
func (d database) events(t *testing.T) map[string]string {
	t.Helper()
	rows, err := d.pool.Query(t.Context(), `SELECT event_id, payload::text FROM t_outbox_event`)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	var id, payload string
	if _, err := pgx.ForEachRow(rows, []any{&id, &payload}, func() error { all[id] = payload; return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// await asks until a query gives true.
func (d database) await(t *testing.T, what, query string, args ...any) {
	t.Helper()
	until(t, what, func() bool { return one[bool](t, d, query, args...) })
}

// until asks again and again, for a minute and a half at most.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	late := time.After(90 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
