// Package migrate brings a database to the schema that this program was built
// with. It is the only place that knows the migration tool.
package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

// Dialect names a database in the way that the migration tool does.
type Dialect string

// The dialects that there are stores for.
const (
	SQLite   Dialect = "sqlite3"
	Postgres Dialect = "postgres"
)

// Table is where a database keeps the number of each migration it has seen.
const Table = "settle_schema"

// ErrNewerSchema means that a newer program has migrated this database. An
// older one does not know what it would break, so it does not touch it.
var ErrNewerSchema = errors.New("the schema is newer than this program; use the program that migrated it, or a later one")

// Up applies the migrations of fsys that db does not have yet, in order, each
// in a transaction of its own together with the note that it was applied.
//
// The caller holds a lock that keeps other processes from migrating the same
// database at the same time. Crash here: whole migrations stay, the next Up
// goes on behind the last one.
func Up(ctx context.Context, db *sql.DB, dialect Dialect, fsys fs.FS) error {
	p, err := goose.NewProvider(goose.Dialect(dialect), db, fsys,
		goose.WithTableName(Table), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	current, target, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	if current > target {
		return fmt.Errorf("schema version %d, this program knows %d: %w", current, target, ErrNewerSchema)
	}
	if current == target {
		return nil
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate from schema version %d to %d: %w", current, target, err)
	}
	return nil
}
