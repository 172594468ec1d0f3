package dial

import (
	"context"

	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/mysql"
	"github.com/settlemq/settle/store/postgres"
)

// Adopter makes a table of another owner the outbox of a schema, or a database, of
// Settle's own.
type Adopter interface {
	// Plan returns what was found and what Run will do; it changes nothing.
	Plan(ctx context.Context) (migrate.AdoptPlan, error)
	// SQL returns what Run would run.
	SQL(ctx context.Context) (string, error)
	// Run does it, or changes how an adopted table is read. It goes on with what
	// was begun.
	Run(ctx context.Context) (migrate.AdoptPlan, error)
}

// Adopt prepares the adoption of a table in the database at a URL. It does no
// I/O. A URL that can't be is a *URLError, and so is one of a kind of database
// whose tables can't be adopted.
func Adopt(rawURL string, cfg migrate.AdoptConfig) (Adopter, error) {
	u, err := databaseURL(rawURL)
	if err != nil {
		return nil, err
	}
	switch dialectOf(u) {
	case Postgres:
		return postgres.NewAdopt(rawURL, cfg)
	case MySQL:
		return mysql.NewAdopt(rawURL, cfg)
	}
	return nil, &URLError{Kind: "database", Wrong: u.Scheme, Reason: "a table is adopted in PostgreSQL, MySQL and MariaDB only, not in", Right: databaseURLs()[1:]}
}
