package migrate_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	_ "modernc.org/sqlite"

	"github.com/settlemq/settle/store/migrate"
)

const (
	first  = "-- +goose Up\nCREATE TABLE a (x);\n"
	second = "-- +goose Up\nCREATE TABLE b (x);\nINSERT INTO b VALUES (1);\n"
	broken = "-- +goose Up\nCREATE TABLE b (x);\nINSERT INTO nowhere VALUES (1);\n"
)

func files(texts ...string) fstest.MapFS {
	fs := fstest.MapFS{}
	for i, text := range texts {
		fs["000"+string(rune('1'+i))+"_x.sql"] = &fstest.MapFile{Data: []byte(text)}
	}
	return fs
}

func openDB(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "a.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func tables(t *testing.T, db *sql.DB) string {
	t.Helper()
	var names string
	if err := db.QueryRowContext(t.Context(), "SELECT coalesce(group_concat(name, ' '), '') FROM (SELECT name FROM sqlite_master WHERE type = 'table' AND length(name) = 1 ORDER BY name)").Scan(&names); err != nil {
		t.Fatal(err)
	}
	return names
}

func TestUpAppliesWhatIsMissingAndNothingTwice(t *testing.T) {
	db := openDB(t)
	for _, step := range []struct {
		files fstest.MapFS
		want  string
	}{{files(first), "a"}, {files(first), "a"}, {files(first, second), "a b"}, {files(first, second), "a b"}} {
		if err := migrate.Up(t.Context(), db, migrate.SQLite, step.files); err != nil {
			t.Fatal(err)
		}
		if got := tables(t, db); got != step.want {
			t.Fatalf("tables are %q, want %q", got, step.want)
		}
	}
	var n int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM b").Scan(&n); err != nil || n != 1 {
		t.Errorf("the second migration ran %d times (%v)", n, err)
	}
}

func TestAMigrationThatFailsLeavesNothingAndCanBeMended(t *testing.T) {
	db := openDB(t)
	err := migrate.Up(t.Context(), db, migrate.SQLite, files(first, broken))
	if err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Fatalf("says %v", err)
	}
	if got := tables(t, db); got != "a" {
		t.Fatalf("tables are %q, want those of the first migration", got)
	}
	if err := migrate.Up(t.Context(), db, migrate.SQLite, files(first, second)); err != nil {
		t.Fatal(err)
	}
	if got := tables(t, db); got != "a b" {
		t.Errorf("tables are %q", got)
	}
}

func TestANewerSchemaIsRefusedAndNotTouched(t *testing.T) {
	db := openDB(t)
	if err := migrate.Up(t.Context(), db, migrate.SQLite, files(first, second)); err != nil {
		t.Fatal(err)
	}
	if err := migrate.Up(t.Context(), db, migrate.SQLite, files(first)); !errors.Is(err, migrate.ErrNewerSchema) {
		t.Errorf("says %v, want ErrNewerSchema", err)
	}
	if got := tables(t, db); got != "a b" {
		t.Errorf("tables are %q", got)
	}
}

func TestACheckTellsAnOlderSchemaFromANewerOneAndChangesNeither(t *testing.T) {
	db := openDB(t)
	if err := migrate.Up(t.Context(), db, migrate.SQLite, files(first)); err != nil {
		t.Fatal(err)
	}
	if err := migrate.Check(t.Context(), db, migrate.SQLite, files(first, second)); !errors.Is(err, migrate.ErrOlderSchema) || !strings.Contains(err.Error(), "settle migrate") {
		t.Errorf("of an older one it says %v", err)
	}
	if got := tables(t, db); got != "a" {
		t.Errorf("behind the check tables are %q", got)
	}
	if err := migrate.Check(t.Context(), db, migrate.SQLite, files(first)); err != nil {
		t.Errorf("of its own it says %v", err)
	}
	if err := migrate.Up(t.Context(), db, migrate.SQLite, files(first, second)); err != nil {
		t.Fatal(err)
	}
	if err := migrate.Check(t.Context(), db, migrate.SQLite, files(first)); !errors.Is(err, migrate.ErrNewerSchema) {
		t.Errorf("of a newer one it says %v", err)
	}
}

func TestUpEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	db := openDB(t)
	if err := migrate.Up(ctx, db, migrate.SQLite, files(first)); err == nil {
		t.Error("migrates although its context is done")
	}
	if got := tables(t, db); got != "" {
		t.Errorf("tables are %q", got)
	}
}
