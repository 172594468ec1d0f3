package migrate_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/settlemq/settle/store/migrate"
)

const (
	oneWay = "-- +goose Up\nCREATE TABLE a (x); -- it's a\n\n-- +goose Down\nDROP TABLE a;\n"
	twoWay = "-- +goose Up\n-- +goose StatementBegin\nCREATE TABLE b (x);\n-- +goose StatementEnd\nINSERT INTO b VALUES (1);\n\n-- +goose Down\nDROP TABLE b;\n"
	view   = "-- +goose Up\nCREATE VIEW c AS SELECT 1 AS y;\n\n-- +goose Down\nDROP VIEW c;\n"
)

func schema(db *sql.DB, f fstest.MapFS, guard error) *migrate.Schema {
	return migrate.NewSchema(migrate.Source{
		DB: db, Dialect: migrate.SQLite, Files: f,
		Lock:  func(context.Context) (func() error, error) { return func() error { return nil }, nil },
		Guard: func(context.Context, *sql.Tx) error { return guard },
	})
}

func standing(t *testing.T, s *migrate.Schema) string {
	t.Helper()
	steps, err := s.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, step := range steps {
		if text += step.Name; step.Applied {
			text += "+"
		}
	}
	return text
}

func TestASchemaGoesUpAndDownAndTellsWhereItIs(t *testing.T) {
	db := openDB(t)
	db.SetMaxOpenConns(1)
	if got := standing(t, schema(nil, files(oneWay, twoWay), nil)); got != "xx" {
		t.Errorf("a database that is not there has %q", got)
	}
	applied, err := schema(db, files(oneWay), nil).Up(t.Context())
	if err != nil || len(applied) != 1 {
		t.Fatal(applied, err)
	}
	s := schema(db, files(oneWay, twoWay, view), nil)
	if got := standing(t, s); got != "x+xx" {
		t.Errorf("behind it has %q", got)
	}
	if _, err := s.Down(t.Context(), 0); err == nil {
		t.Error("a way down began in the middle")
	}
	if applied, err := s.Up(t.Context()); err != nil || len(applied) != 2 || tables(t, db) != "a b" {
		t.Fatal(applied, err, tables(t, db))
	}
	if applied, err := s.Up(t.Context()); err != nil || len(applied) != 0 {
		t.Error(applied, err)
	}
	removed, err := s.Down(t.Context(), 1)
	if err != nil || len(removed) != 2 || removed[0].Version != 3 || tables(t, db) != "a" || standing(t, s) != "x+xx" {
		t.Errorf("down to 1: %v, %v, %s, %s", removed, err, tables(t, db), standing(t, s))
	}
	if applied, err := s.Up(t.Context()); err != nil || len(applied) != 2 {
		t.Errorf("up again: %v, %v", applied, err)
	}
	if removed, err := s.Down(t.Context(), 0); err != nil || len(removed) != 3 || tables(t, db) != "" || standing(t, s) != "xxx" {
		t.Errorf("down to nothing: %v, %v, %s", removed, err, tables(t, db))
	}
	if applied, err := s.Up(t.Context()); err != nil || len(applied) != 3 {
		t.Errorf("up from nothing: %v, %v", applied, err)
	}
	if _, err := schema(db, files(oneWay), nil).Status(t.Context()); !errors.Is(err, migrate.ErrNewerSchema) {
		t.Errorf("an older program says %v", err)
	}
}

func TestAWayDownThatWouldLoseSomethingChangesNothing(t *testing.T) {
	db := openDB(t)
	db.SetMaxOpenConns(1)
	s := schema(db, files(oneWay, twoWay, view), migrate.ErrUndelivered)
	if _, err := s.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Down(t.Context(), 0); !errors.Is(err, migrate.ErrUndelivered) || tables(t, db) != "a b" || standing(t, s) != "x+x+x+" {
		t.Errorf("%v, %s, %s", err, tables(t, db), standing(t, s))
	}
	// A view holds nothing.
	if removed, err := s.Down(t.Context(), 2); err != nil || len(removed) != 1 {
		t.Errorf("%v, %v", removed, err)
	}
	broken := files(oneWay, strings.Replace(twoWay, "DROP TABLE b", "DROP TABLE nowhere", 1))
	if _, err := schema(db, broken, nil).Down(t.Context(), 0); err == nil || tables(t, db) != "a b" {
		t.Errorf("a broken way down: %v, %s", err, tables(t, db))
	}
}

func TestThePlanRunByHandIsTheMigration(t *testing.T) {
	db := openDB(t)
	db.SetMaxOpenConns(1)
	f := files(oneWay, twoWay, view)
	text, err := schema(nil, f, nil).Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "goose") || strings.Contains(text, "?") {
		t.Errorf("the plan is\n%s", text)
	}
	if _, err := db.ExecContext(t.Context(), text); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	s := schema(db, f, nil)
	if applied, err := s.Up(t.Context()); err != nil || len(applied) != 0 || tables(t, db) != "a b" {
		t.Errorf("after the plan: %v, %v, %s", applied, err, tables(t, db))
	}
	if text, err := s.Plan(t.Context()); err != nil || text != "" {
		t.Errorf("when nothing is missing the plan is %q, %v", text, err)
	}
	down, err := s.PlanDown(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), down); err != nil || tables(t, db) != "a" || standing(t, s) != "x+xx" {
		t.Errorf("%v, %s, %s\n%s", err, tables(t, db), standing(t, s), down)
	}
}

func TestATableOfAnotherProgramIsLeftAsItIs(t *testing.T) {
	db := openDB(t)
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE t_outbox_event (text)"); err != nil {
		t.Fatal(err)
	}
	s := schema(db, files(oneWay), nil)
	if _, err := s.Up(t.Context()); !errors.Is(err, migrate.ErrOccupied) || tables(t, db) != "" {
		t.Errorf("%v, %s", err, tables(t, db))
	}
	var left int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM sqlite_master WHERE name = '"+migrate.Table+"'").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d tables were left behind, %v", left, err)
	}
}
