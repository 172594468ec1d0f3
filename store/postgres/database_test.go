package postgres

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/internal/services"
)

// DatabaseForTest returns the URL of a schema of the test's own, which is dropped when
// it ends.
func DatabaseForTest(t testing.TB) string {
	t.Helper()
	at := serverForTest(t)
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal("SETTLE_TEST_POSTGRES can't be read")
	}
	schema := "test_" + strings.ReplaceAll(settle.NewID(), "-", "")
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, at)
		if err != nil {
			t.Errorf("drop the test's schema: %v", err)
			return
		}
		defer func() { _ = conn.Close(ctx) }()
		if _, err := conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE"); err != nil {
			t.Errorf("drop the test's schema: %v", err)
		}
	})
	return u.String()
}

// serverForTest returns the URL of the tests' server, and skips the test where
// there is none.
func serverForTest(t testing.TB) string {
	t.Helper()
	return services.URL(t, "SETTLE_TEST_POSTGRES", "postgres")
}

// OpenForTest opens the schema at a URL and closes it when the test ends.
// Statements may take long there unless cfg says otherwise: tests store more
// rows at once than a relay does, on machines that are busy.
func OpenForTest(t testing.TB, at string, cfg Config) *Store {
	t.Helper()
	setDefault(&cfg.StatementTimeout, time.Minute)
	s, err := Open(context.Background(), at, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Pooled reports whether s has noticed a pooler.
func Pooled(s *Store) bool {
	return s.own.Config().ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeCacheDescribe
}
