// Package migrate brings a database to the schema that this program was built
// with. It is the only place that knows the migration tool.
package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/pressly/goose/v3"
)

// Dialect names a database in the way that the migration tool does.
type Dialect string

// The dialects that there are stores for.
const (
	SQLite   Dialect = "sqlite3"
	Postgres Dialect = "postgres"
	MySQL    Dialect = "mysql"
)

// Table is where a database keeps the number of each migration it has seen.
const Table = "settle_schema"

// ErrNewerSchema means that a newer program has migrated this database. An
// older one does not know what it would break, so it does not touch it.
var ErrNewerSchema = errors.New("the schema is newer than this program; use the program that migrated it, or a later one")

// ErrOlderSchema means that this program needs migrations that the database has
// not seen.
var ErrOlderSchema = errors.New("the schema is older than this program; settle migrate brings it up to date")

// ErrOccupied means that a table of a name that Settle uses is there, and Settle
// has not made it. Nothing was changed.
var ErrOccupied = errors.New("there is a table " + occupant + " that Settle has not made; give Settle a database or schema of its own, or rename that table")

// Up applies the migrations of fsys that db does not have yet, in order, each
// in a transaction of its own together with the note that it was applied.
//
// The caller holds a lock that keeps other processes from migrating the same
// database at the same time. Crash here: whole migrations stay, the next Up
// goes on behind the last one.
func Up(ctx context.Context, db *sql.DB, dialect Dialect, fsys fs.FS) error {
	if err := vacant(ctx, db, dialect); err != nil {
		return err
	}
	if err := numberNone(ctx, db, dialect); err != nil {
		return err
	}
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

// Check returns nil if db has all migrations of fsys, and ErrOlderSchema or
// ErrNewerSchema if it does not. It changes nothing. The database has Table.
func Check(ctx context.Context, db *sql.DB, dialect Dialect, fsys fs.FS) error {
	steps, err := NewSchema(Source{DB: db, Dialect: dialect, Files: fsys}).Status(ctx)
	if err != nil {
		return err
	}
	last := steps[len(steps)-1]
	if last.Applied {
		return nil
	}
	first := slices.IndexFunc(steps, func(s Step) bool { return !s.Applied })
	return fmt.Errorf("schema version %d is the first of %d that are missing: %w", steps[first].Version, len(steps)-first, ErrOlderSchema)
}

const insertNone = `INSERT INTO ` + Table + ` (version_id, is_applied) SELECT 0, true FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM ` + Table + `)`

// numberNone goes on where a process was killed between making the table of
// numbers and its first row, which MySQL commits one by one.
func numberNone(ctx context.Context, db *sql.DB, dialect Dialect) error {
	if dialect != MySQL {
		return nil
	}
	own, err := hasTable(ctx, db, dialect, Table)
	if err == nil && own {
		_, err = db.ExecContext(ctx, insertNone)
	}
	if err != nil {
		return fmt.Errorf("number the migrations: %w", err)
	}
	return nil
}

// occupant is the first table that is made: one that others have made before
// has another shape.
const occupant = "t_outbox_event"

// vacant refuses a database that has the first table and no numbers.
func vacant(ctx context.Context, db *sql.DB, dialect Dialect) error {
	own, err := hasTable(ctx, db, dialect, Table)
	if err != nil || own {
		return err
	}
	taken, err := hasTable(ctx, db, dialect, occupant)
	switch {
	case err != nil || !taken:
		return err
	case dialect == Postgres:
		return fmt.Errorf("%w; settle migrate --adopt reads that table as it stands, from a schema of Settle's own", ErrOccupied)
	case dialect == MySQL:
		return fmt.Errorf("%w; settle migrate --adopt reads that table as it stands, from a database of Settle's own", ErrOccupied)
	}
	return ErrOccupied
}

func hasTable(ctx context.Context, db *sql.DB, dialect Dialect, name string) (found bool, err error) {
	query := `SELECT count(*) > 0 FROM sqlite_master WHERE type = 'table' AND name = '` + name + `'`
	switch dialect {
	case MySQL:
		query = `SELECT count(*) > 0 FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = '` + name + `'`
	case Postgres:
		query = `SELECT to_regclass(format('%I.` + name + `', coalesce(current_schema(), ''))) IS NOT NULL`
	}
	if err := db.QueryRowContext(ctx, query).Scan(&found); err != nil {
		return false, fmt.Errorf("look for table %s: %w", name, err)
	}
	return found, nil
}
