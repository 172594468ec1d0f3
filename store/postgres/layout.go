package postgres

import (
	"context"
	"database/sql"
	"embed"
	"io/fs"

	"github.com/settlemq/settle/store/migrate"
)

//go:embed migrations/adopted/*.sql
var adoptedMigrations embed.FS

// layout returns the migrations of a schema that has an outbox of its own, or
// of one that reads a table of another owner: the same numbers, and other files
// where the two differ.
func layout(adopted bool) (fs.FS, error) {
	own, err := fs.Sub(migrations, "migrations")
	if err != nil || !adopted {
		return own, err
	}
	over, err := fs.Sub(adoptedMigrations, "migrations/adopted")
	return migrate.Overlay(own, over), err
}

// readsAdopted tells the layout of a schema: the table is made before all else.
const readsAdopted = `SELECT to_regclass(format('%I.settle_adoption', coalesce(current_schema(), ''))) IS NOT NULL`

// presentLayout returns the migrations of the layout that a schema has.
func presentLayout(ctx context.Context, db *sql.DB) (fs.FS, error) {
	var adopted bool
	if err := db.QueryRowContext(ctx, readsAdopted).Scan(&adopted); err != nil {
		return nil, err
	}
	return layout(adopted)
}
