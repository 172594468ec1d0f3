package postgres_test

import (
	"context"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

// pooler returns the URL of a pooler in transaction mode, to the database name.
func pooler(t *testing.T, name string) string {
	t.Helper()
	at := os.Getenv("SETTLE_TEST_PGBOUNCER")
	if at == "" {
		if os.Getenv("SETTLE_TEST_ALL") != "" {
			t.Fatal("SETTLE_TEST_PGBOUNCER is not set: export it with the URL that `scripts/services up pgbouncer` prints")
		}
		t.Skip("SKIPPED, NOTHING OF THIS IS PROVED: SETTLE_TEST_PGBOUNCER is not set; `scripts/services up postgres pgbouncer` prints its value")
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal("SETTLE_TEST_PGBOUNCER can't be read")
	}
	u.Path = "/" + name
	return u.String()
}

// ownDatabase makes a database that is dropped when the test ends: a pooler
// does not let a URL choose a schema.
func ownDatabase(t *testing.T) string {
	t.Helper()
	postgres.DatabaseForTest(t) // skipped where there is no server
	name := "test_" + strings.ReplaceAll(settle.NewID(), "-", "")
	do := func(query string) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, os.Getenv("SETTLE_TEST_POSTGRES"))
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close(ctx) }()
		if _, err := conn.Exec(ctx, query); err != nil {
			t.Error(err)
		}
	}
	do("CREATE DATABASE " + name)
	t.Cleanup(func() { do("DROP DATABASE " + name + " WITH (FORCE)") })
	return name
}

func TestAPoolerInTransactionModeMayStandBetween(t *testing.T) {
	at := pooler(t, ownDatabase(t))
	s, other := postgres.OpenForTest(t, at, postgres.Config{MaxConns: 24}), postgres.OpenForTest(t, at, postgres.Config{})
	if !postgres.Pooled(s) {
		t.Error("the pooler is not noticed")
	}
	wrong, sent := concurrent.Carry(t, []relay.Store{s.Log(), other.Log()}, 20*time.Second, nil, func() map[string]int64 {
		return concurrent.Write(t, written(s), concurrent.Load{Writers: 4, Keys: 20, During: 2 * time.Second, Plain: true})
	})
	for _, w := range wrong {
		t.Error(w)
	}
	if sent < 20 {
		t.Errorf("%d events", sent)
	}
}

func TestAPoolerThatRefusesTheSchemaIsNamed(t *testing.T) {
	at := pooler(t, "postgres") + "?search_path=other"
	_, err := postgres.Open(t.Context(), at, postgres.Config{})
	if err == nil || !strings.Contains(err.Error(), "pooler") || !strings.Contains(err.Error(), "ALTER ROLE") {
		t.Errorf("says %v", err)
	}
}

func TestWithoutAPoolerNoneIsSeen(t *testing.T) {
	if postgres.Pooled(postgres.OpenForTest(t, postgres.DatabaseForTest(t), postgres.Config{})) {
		t.Error("a pooler is seen where there is none")
	}
}
