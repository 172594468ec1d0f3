package shop

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle/dial"
)

// onEachDatabase runs a test in the directory of a shop that keeps its tables
// in files, and in those of shops that keep them in PostgreSQL and in MySQL.
func onEachDatabase(t *testing.T, test func(t *testing.T, dir string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, t.TempDir()) })
	onEachServer(t, test)
}

// onEachServer does the same without files.
func onEachServer(t *testing.T, test func(t *testing.T, dir string)) {
	t.Helper()
	t.Run("postgres", func(t *testing.T) { test(t, postgresDir(t)) })
	t.Run("mysql", func(t *testing.T) { test(t, mysqlDir(t)) })
}

// serverURL is where the tests' server is.
func serverURL(t testing.TB, variable, service string) string {
	t.Helper()
	at := os.Getenv(variable)
	switch {
	case at == "" && os.Getenv("CI") != "":
		t.Fatalf("%s is not set: export it with the URL that `scripts/services up %s` prints", variable, service)
	case at == "":
		t.Skipf("SKIPPED, NOTHING OF THIS IS PROVED: %s is not set; `scripts/services up %s` prints its value", variable, service)
	}
	return at
}

// postgresDir makes the directory of a shop whose schemas go with the test.
func postgresDir(t testing.TB) string {
	t.Helper()
	return serverDir(t, serverURL(t, "SETTLE_TEST_POSTGRES", "postgres"))
}

// mysqlDir makes the directory of a shop whose databases go with the test.
func mysqlDir(t testing.TB) string {
	t.Helper()
	u, err := url.Parse(serverURL(t, "SETTLE_TEST_MYSQL", "mariadb"))
	if err != nil {
		t.Fatal("SETTLE_TEST_MYSQL can't be read")
	}
	u.Path = "/"
	return serverDir(t, u.String())
}

func serverDir(t testing.TB, at string) string {
	t.Helper()
	dir := t.TempDir()
	if err := UseDatabase(dir, at); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := DropDatabase(ctx, dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestADatabaseHasTheSameTablesOnEachKind(t *testing.T) {
	columns := func(kind, service string) (names []string) {
		for line := range strings.Lines(sqlOf(kind, service)) {
			line, _, _ = strings.Cut(line, "--")
			line = strings.TrimSuffix(strings.TrimSpace(line), ",")
			line = strings.NewReplacer("STRICT, WITHOUT ROWID", "", "INTEGER", "whole", "BIGINT", "whole", "BLOB", "bytes", "BYTEA", "bytes",
				"VARCHAR(191)", "TEXT", "VARCHAR(2000)", "TEXT", "VARBINARY(32)", "bytes").Replace(line)
			word := strings.Join(strings.Fields(line), " ")
			if strings.HasPrefix(word, "CREATE TABLE") || strings.Contains(word, " whole") || strings.Contains(word, " TEXT") || strings.Contains(word, " bytes") || strings.Contains(word, "CHECK") || strings.Contains(word, "KEY") {
				names = append(names, word)
			}
		}
		return names
	}
	for _, name := range serviceNames() {
		files := columns("sqlite", name)
		for _, kind := range []string{"postgres", "mysql"} {
			is := columns(kind, name)
			if len(files) < 2 || strings.Join(files, "\n") != strings.Join(is, "\n") {
				t.Errorf("the tables of %s differ:\n%s\n%s", name, strings.Join(files, "\n"), strings.Join(is, "\n"))
			}
		}
	}
}

func TestADirectoryRemembersItsDatabaseAndTakesNoOther(t *testing.T) {
	for _, c := range []struct {
		first, again string
		others       []string
	}{
		{"postgres://u:old@127.0.0.1:5432/shop?sslmode=disable", "postgres://u:new@127.0.0.1:5432/shop",
			[]string{"postgres://u@127.0.0.1:5433/shop", "postgres://u@127.0.0.1:5432/other", "mysql://u@127.0.0.1:5432/"}},
		{"mysql://u:old@127.0.0.1:3306/", "mariadb://u:new@127.0.0.1:3306", []string{"mysql://u@127.0.0.1:3307/", "postgres://u@127.0.0.1:3306/shop"}},
	} {
		dir := t.TempDir()
		if err := UseDatabase(dir, c.first); err != nil {
			t.Fatal(err)
		}
		there, server := Holds(dir)
		first, err := Databases(dir)
		if err != nil || !there || !server || len(first) != len(serviceNames()) {
			t.Fatalf("holds %v %v, %v, %v", there, server, first, err)
		}
		if file, err := os.Stat(filepath.Join(dir, databaseFile)); err != nil || file.Mode().Perm() != 0o600 {
			t.Errorf("its file is readable for others: %v, %v", file.Mode(), err)
		}
		if err := UseDatabase(dir, c.again); err != nil {
			t.Fatal(err)
		}
		again, err := Databases(dir)
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range again {
			is, err := url.Parse(d.URL)
			if err != nil {
				t.Fatal(err)
			}
			password, _ := is.User.Password()
			if password != "new" || d.Schema != first[i].Schema || !strings.HasSuffix(d.Schema, "_"+d.Service) || !strings.Contains(d.URL, d.Schema) {
				t.Errorf("%s is at %s, was at %s", d.Service, d.URL, first[i].URL)
			}
		}
		for _, other := range c.others {
			if err := UseDatabase(dir, other); !errors.Is(err, ErrElsewhere) {
				t.Errorf("%s: %v", other, err)
			}
		}
	}
	files := t.TempDir()
	if err := Stock(t.Context(), files, Level{"a", 1}); err != nil {
		t.Fatal(err)
	}
	memberIn(t, files, "order")
	if err := UseDatabase(files, "postgres://u@127.0.0.1:5432/shop"); !errors.Is(err, ErrElsewhere) {
		t.Errorf("a shop that keeps files: %v", err)
	}
	var wrong *dial.URLError
	if err := UseDatabase(t.TempDir(), "postgres://"); !errors.As(err, &wrong) {
		t.Errorf("no address: %v", err)
	}
}

func TestWhatIsDroppedIsGoneAndMayBeDroppedAgain(t *testing.T) {
	onEachServer(t, testWhatIsDroppedIsGoneAndMayBeDroppedAgain)
}

func testWhatIsDroppedIsGoneAndMayBeDroppedAgain(t *testing.T, dir string) {
	if err := Stock(t.Context(), dir, Level{"a", 1}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := DropDatabase(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
	}
	all, err := Databases(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if _, err := dial.Store(t.Context(), d.URL, dial.StoreConfig{Existing: true}); !errors.Is(err, dial.ErrForeign) {
			t.Errorf("%s: %v", d.Service, err)
		}
	}
}

func TestPasswordsAreInNoErrorOfAShopsDatabase(t *testing.T) {
	for _, at := range []string{"postgres://u:s3cret@127.0.0.1:1/shop", "mysql://u:s3cret@127.0.0.1:1/"} {
		dir := t.TempDir()
		if err := UseDatabase(dir, at); err != nil {
			t.Fatal(err)
		}
		_, unsettled := Unsettled(t.Context(), dir)
		for _, err := range []error{Stock(t.Context(), dir, Level{"a", 1}), DropDatabase(t.Context(), dir), PingDatabase(t.Context(), at), unsettled} {
			if err == nil || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("got %v", err)
			}
		}
	}
}
