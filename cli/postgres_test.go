package cli_test

import (
	"context"
	"database/sql"
	"net/url"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // sql.Open("pgx", …)

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/internal/services"
)

// postgresSchema returns the URL of a schema that does not exist yet and is
// dropped when the test ends.
func postgresSchema(t *testing.T) string {
	t.Helper()
	at := services.URL(t, "SETTLE_TEST_POSTGRES", "postgres")
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal("SETTLE_TEST_POSTGRES can't be read")
	}
	schema := "test_" + strings.ReplaceAll(settle.NewID(), "-", "")
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	t.Cleanup(func() { execPostgres(t, at, "DROP SCHEMA IF EXISTS "+schema+" CASCADE") })
	return u.String()
}

func execPostgres(t *testing.T, at, query string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	db, err := sql.Open("pgx", at)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, query); err != nil {
		t.Fatal(err)
	}
}
