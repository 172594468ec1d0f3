package drill_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/settletest"
)

// onEachDatabase runs a test with the URLs that services have on each kind of
// database.
func onEachDatabase(t *testing.T, test func(t *testing.T, at func(service string) string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		dir := settletest.Dir(t)
		test(t, func(service string) string {
			return (&url.URL{Scheme: "sqlite", Path: filepath.Join(dir, service+".db")}).String()
		})
	})
	t.Run("postgres", func(t *testing.T) {
		prefix := "test_" + strings.ReplaceAll(settle.NewID(), "-", "") + "_"
		test(t, func(service string) string { return postgresSchema(t, prefix+service) })
	})
}

// postgresSchema returns the URL of a schema that goes with the test.
func postgresSchema(t *testing.T, name string) string {
	t.Helper()
	at := os.Getenv("SETTLE_TEST_POSTGRES")
	switch {
	case at == "" && os.Getenv("CI") != "":
		t.Fatal("SETTLE_TEST_POSTGRES is not set: export it with the URL that `scripts/services up postgres` prints")
	case at == "":
		t.Skip("SKIPPED, NOTHING OF THIS IS PROVED: SETTLE_TEST_POSTGRES is not set; `scripts/services up postgres` prints its value")
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal("SETTLE_TEST_POSTGRES can't be read")
	}
	q := u.Query()
	q.Set("search_path", name)
	u.RawQuery = q.Encode()
	t.Cleanup(func() {
		db := openDatabase(t, u.String())
		defer func() { _ = db.Close() }()
		tx, err := db.Begin(context.Background())
		if err == nil {
			_, err = tx.ExecContext(context.Background(), "DROP SCHEMA "+name+" CASCADE")
		}
		if err == nil {
			err = tx.Commit()
		}
		if err != nil {
			t.Error(err)
		}
	})
	return u.String()
}

func openDatabase(t *testing.T, at string) *dial.Database {
	t.Helper()
	db, err := dial.Store(context.Background(), at, dial.StoreConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return db
}
