package dial

import (
	"context"

	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/mysql"
	"github.com/settlemq/settle/store/postgres"
	"github.com/settlemq/settle/store/sqlite"
)

// Schema opens the database at a URL for looking at its schema and changing it.
// One that is missing is made if create is set; else it can only be looked at.
// A URL that can't be is a *URLError; any other error comes from the database.
func Schema(ctx context.Context, rawURL string, create bool) (*migrate.Schema, error) {
	u, err := databaseURL(rawURL)
	if err != nil {
		return nil, err
	}
	switch dialectOf(u) {
	case SQLite:
		return sqlite.Schema(ctx, u.Path, create)
	case MySQL:
		return mysql.Schema(ctx, rawURL, create)
	}
	return postgres.Schema(ctx, rawURL, create)
}
