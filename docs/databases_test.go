package docs_test

import (
	"context"
	"database/sql"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/internal/services"
)

// freePort is one that nobody listens on just now.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// named returns the URL of a database of the test's own on a server, and its name.
func named(t *testing.T, at string) (own, name string) {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal("the URL of the tests' server can't be read")
	}
	name = "test_" + strings.ReplaceAll(settle.NewID(), "-", "")
	u.Path = "/" + name
	return u.String(), name
}

// postgresDatabase is empty, and goes with the test.
func postgresDatabase(t *testing.T) string {
	t.Helper()
	at := services.URL(t, "SETTLE_TEST_POSTGRES", "postgres")
	own, name := named(t, at)
	execute(t, "pgx", at, "CREATE DATABASE "+name)
	t.Cleanup(func() { execute(t, "pgx", at, "DROP DATABASE "+name+" WITH (FORCE)") })
	return own
}

// mysqlDatabase is not there yet, and goes with the test.
func mysqlDatabase(t *testing.T) string {
	t.Helper()
	at := services.URL(t, "SETTLE_TEST_MYSQL", "mariadb")
	own, name := named(t, at)
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal("SETTLE_TEST_MYSQL can't be read")
	}
	password, _ := u.User.Password()
	t.Cleanup(func() {
		execute(t, "mysql", u.User.Username()+":"+password+"@tcp("+u.Host+")"+u.Path, "DROP DATABASE IF EXISTS "+name)
	})
	return own
}

func execute(t *testing.T, driver, at, query string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	db, err := sql.Open(driver, at)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, query); err != nil {
		t.Errorf("%s: %v", query, err)
	}
}
