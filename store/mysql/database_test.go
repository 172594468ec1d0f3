package mysql

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/internal/services"
)

// DatabaseForTest returns the URL of a database of the test's own, which is
// dropped when it ends.
func DatabaseForTest(t testing.TB) string {
	t.Helper()
	at := serverForTest(t)
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal("SETTLE_TEST_MYSQL can't be read")
	}
	name := "test_" + strings.ReplaceAll(settle.NewID(), "-", "")
	execForTest(t, at, "CREATE DATABASE "+name)
	t.Cleanup(func() { execForTest(t, at, "DROP DATABASE IF EXISTS "+name) })
	u.Path = "/" + name
	return u.String()
}

func execForTest(t testing.TB, at, query string) {
	t.Helper()
	cfg, err := parseURL(at)
	if err != nil {
		t.Fatal(err)
	}
	db, err := pool(cfg, nil, 1, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := db.ExecContext(ctx, query); err != nil {
		t.Errorf("%s: %v", query, err)
	}
}

// serverForTest returns the URL of the tests' server, and skips the test where
// there is none.
func serverForTest(t testing.TB) string {
	t.Helper()
	return services.URL(t, "SETTLE_TEST_MYSQL", "mariadb")
}

// OpenForTest opens the database at a URL and closes it when the test ends.
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
