package mysql

import (
	"context"
	"io/fs"

	"github.com/settlemq/settle/store/migrate"
)

// exactly stands in the migrations for the collation that compares byte by
// byte; servers have it under different names.
const exactly = "settle_exact"

// layout returns the migrations, as this server takes them, of a database that
// has an outbox of its own, or of one that reads a table of another owner: the
// same numbers, and other files where the two differ. The owner's collation may
// be one that the server does not compare with ours.
func (s server) layout(adopted bool) (fs.FS, error) {
	own, err := fs.Sub(migrations, "migrations")
	if err != nil || !adopted {
		return migrate.Respelled(own, exactly, s.exact), err
	}
	over, err := fs.Sub(migrations, "migrations/adopted")
	files := migrate.Respelled(migrate.Overlay(own, over), exactly, s.exact)
	return migrate.Respelled(files, "event_id = e.event_id", "event_id = CONVERT(e.event_id USING utf8mb4)"), err
}

// layoutOf returns the migrations of the layout that a database has.
func (s server) layoutOf(ctx context.Context, db querier) (fs.FS, error) {
	var adopted bool
	if err := db.QueryRowContext(ctx, hasAdoption).Scan(&adopted); err != nil {
		return nil, err
	}
	return s.layout(adopted)
}
