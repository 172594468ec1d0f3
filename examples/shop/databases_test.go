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
// in files, and in that of one that keeps them in PostgreSQL.
func onEachDatabase(t *testing.T, test func(t *testing.T, dir string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, t.TempDir()) })
	t.Run("postgres", func(t *testing.T) { test(t, postgresDir(t)) })
}

// postgresURL is where the tests' server is.
func postgresURL(t testing.TB) string {
	t.Helper()
	at := os.Getenv("SETTLE_TEST_POSTGRES")
	switch {
	case at == "" && os.Getenv("CI") != "":
		t.Fatal("SETTLE_TEST_POSTGRES is not set: export it with the URL that `scripts/services up postgres` prints")
	case at == "":
		t.Skip("SKIPPED, NOTHING OF THIS IS PROVED: SETTLE_TEST_POSTGRES is not set; `scripts/services up postgres` prints its value")
	}
	return at
}

// postgresDir makes the directory of a shop whose schemas go with the test.
func postgresDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := UseDatabase(dir, postgresURL(t)); err != nil {
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
			line = strings.NewReplacer("STRICT, WITHOUT ROWID", "", "INTEGER", "whole", "BIGINT", "whole", "BLOB", "bytes", "BYTEA", "bytes").Replace(line)
			word := strings.Join(strings.Fields(line), " ")
			if strings.HasPrefix(word, "CREATE TABLE") || strings.Contains(word, " whole") || strings.Contains(word, " TEXT") || strings.Contains(word, " bytes") || strings.Contains(word, "CHECK") || strings.Contains(word, "KEY") {
				names = append(names, word)
			}
		}
		return names
	}
	for _, name := range serviceNames() {
		files, postgres := columns("sqlite", name), columns("postgres", name)
		if len(files) < 2 || strings.Join(files, "\n") != strings.Join(postgres, "\n") {
			t.Errorf("the tables of %s differ:\n%s\n%s", name, strings.Join(files, "\n"), strings.Join(postgres, "\n"))
		}
	}
}

func TestADirectoryRemembersItsDatabaseAndTakesNoOther(t *testing.T) {
	dir := t.TempDir()
	if err := UseDatabase(dir, "postgres://u:old@127.0.0.1:5432/shop?sslmode=disable"); err != nil {
		t.Fatal(err)
	}
	there, postgres := Holds(dir)
	first, err := Databases(dir)
	if err != nil || !there || !postgres || len(first) != len(serviceNames()) {
		t.Fatalf("holds %v %v, %v, %v", there, postgres, first, err)
	}
	if file, err := os.Stat(filepath.Join(dir, databaseFile)); err != nil || file.Mode().Perm() != 0o600 {
		t.Errorf("its file is readable for others: %v, %v", file.Mode(), err)
	}
	if err := UseDatabase(dir, "postgres://u:new@127.0.0.1:5432/shop"); err != nil {
		t.Fatal(err)
	}
	again, err := Databases(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range again {
		was, werr := url.Parse(first[i].URL)
		is, ierr := url.Parse(d.URL)
		if err := errors.Join(werr, ierr); err != nil {
			t.Fatal(err)
		}
		schema := is.Query().Get("search_path")
		if password, _ := is.User.Password(); password != "new" || schema != was.Query().Get("search_path") || !strings.HasSuffix(schema, "_"+d.Service) {
			t.Errorf("%s is at %s, was at %s", d.Service, d.URL, first[i].URL)
		}
	}
	for _, other := range []string{"postgres://u@127.0.0.1:5433/shop", "postgres://u@127.0.0.1:5432/other"} {
		if err := UseDatabase(dir, other); !errors.Is(err, ErrElsewhere) {
			t.Errorf("%s: %v", other, err)
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
	dir := postgresDir(t)
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
	dir := t.TempDir()
	if err := UseDatabase(dir, "postgres://u:s3cret@127.0.0.1:1/shop"); err != nil {
		t.Fatal(err)
	}
	_, unsettled := Unsettled(t.Context(), dir)
	for _, err := range []error{Stock(t.Context(), dir, Level{"a", 1}), DropDatabase(t.Context(), dir), unsettled} {
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("got %v", err)
		}
	}
}
