package drill_test

import (
	"context"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/internal/services"
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
	t.Run("mysql", func(t *testing.T) {
		prefix := "test_" + strings.ReplaceAll(settle.NewID(), "-", "") + "_"
		test(t, func(service string) string { return mysqlDatabase(t, prefix+service) })
	})
}

// mysqlDatabase makes a database that goes with the test, and returns its URL.
func mysqlDatabase(t *testing.T, name string) string {
	t.Helper()
	u := serverURL(t, "SETTLE_TEST_MYSQL", "mariadb")
	u.Path = "/" + name
	s, err := dial.Schema(t.Context(), u.String(), true)
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { drop(t, u.String(), "DROP DATABASE "+name) })
	return u.String()
}

// serverURL is where the tests' server is.
func serverURL(t *testing.T, variable, service string) *url.URL {
	t.Helper()
	u, err := url.Parse(services.URL(t, variable, service))
	if err != nil {
		t.Fatalf("%s can't be read", variable)
	}
	return u
}

// drop runs a statement that ends a database.
func drop(t *testing.T, at, statement string) {
	t.Helper()
	db := openDatabase(t, at)
	defer func() { _ = db.Close() }()
	tx, err := db.Begin(context.Background())
	if err == nil {
		_, err = tx.ExecContext(context.Background(), statement)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		t.Error(err)
	}
}

// postgresSchema returns the URL of a schema that goes with the test.
func postgresSchema(t *testing.T, name string) string {
	t.Helper()
	u := serverURL(t, "SETTLE_TEST_POSTGRES", "postgres")
	q := u.Query()
	q.Set("search_path", name)
	u.RawQuery = q.Encode()
	t.Cleanup(func() { drop(t, u.String(), "DROP SCHEMA "+name+" CASCADE") })
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
