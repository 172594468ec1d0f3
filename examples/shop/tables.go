package shop

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"strings"

	"github.com/settlemq/settle/dial"
)

// The tables of each service are written three times, once for each kind of
// database. Everything else is written once, but for what stands in query.go.
//
//go:embed sql/sqlite/*.sql sql/postgres/*.sql sql/mysql/*.sql sql/facts/*.sql
var texts embed.FS

// sqlOf returns a service's SQL of one kind: sqlite, postgres, mysql or facts.
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

// makeTables makes what is missing of a service's tables. MySQL takes one
// statement at a time and commits each by itself; processes that make the same
// table wait for each other there.
func makeTables(ctx context.Context, tx *sql.Tx, dialect dial.Dialect, service string) error {
	if dialect == dial.Postgres {
		if _, err := tx.ExecContext(ctx, makeAlone); err != nil {
			return err
		}
	}
	statements := []string{sqlOf(string(dialect), service)}
	if dialect == dial.MySQL {
		statements = strings.SplitAfter(strings.TrimSpace(statements[0]), ";\n")
	}
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("make tables: %w", err)
		}
	}
	return nil
}

// locked returns a query that keeps the rows it reads from being changed by
// others until its transaction has ended. On SQLite that holds anyway: whoever
// may write is alone.
func locked(db *dial.Database, query string) string {
	if db.Dialect != dial.SQLite {
		return query + " FOR UPDATE"
	}
	return query
}
