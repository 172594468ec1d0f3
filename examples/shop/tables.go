package shop

import (
	"context"
	"database/sql"
	"embed"
	"fmt"

	"github.com/settlemq/settle/dial"
)

// The tables of each service are written twice, once for each kind of database.
// Everything else is written once: both kinds read parameters by number ($1).
//
//go:embed sql/sqlite/*.sql sql/postgres/*.sql sql/facts/*.sql
var texts embed.FS

// sqlOf returns a service's SQL of one kind: sqlite, postgres or facts.
func sqlOf(kind, service string) string {
	b, err := texts.ReadFile("sql/" + kind + "/" + service + ".sql")
	if err != nil {
		panic(err) // it was there when this was compiled
	}
	return string(b)
}

// exportOf returns the queries that tell a drill what a service knows.
func exportOf(service string) string { return sqlOf("facts", service) }

// PostgreSQL can't make the same table twice at one time: processes that start
// together wait for each other. The lock ends with the transaction.
const makeAlone = `SELECT pg_advisory_xact_lock(hashtext('settle.shop'), hashtext(current_schema()))`

// makeTables makes what is missing of a service's tables.
func makeTables(ctx context.Context, tx *sql.Tx, dialect dial.Dialect, service string) error {
	if dialect == dial.Postgres {
		if _, err := tx.ExecContext(ctx, makeAlone); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, sqlOf(string(dialect), service)); err != nil {
		return fmt.Errorf("make tables: %w", err)
	}
	return nil
}

// locked returns a query that keeps the rows it reads from being changed by
// others until its transaction has ended. On SQLite that holds anyway: whoever
// may write is alone.
func locked(db *dial.Database, query string) string {
	if db.Dialect == dial.Postgres {
		return query + " FOR UPDATE"
	}
	return query
}
