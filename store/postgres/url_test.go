package postgres_test

import (
	"net/url"
	"os"
	"testing"
)

// databaseAt returns the URL of a database of the tests' server.
func databaseAt(t *testing.T, name string) string {
	t.Helper()
	u, err := url.Parse(os.Getenv("SETTLE_TEST_POSTGRES"))
	if err != nil {
		t.Fatal("SETTLE_TEST_POSTGRES can't be read")
	}
	u.Path = "/" + name
	return u.String()
}

// as returns a URL with a role whose password is its name.
func as(t *testing.T, at, role string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal("the URL can't be read")
	}
	u.User = url.UserPassword(role, role)
	return u.String()
}
