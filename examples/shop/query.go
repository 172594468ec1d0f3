package shop

import (
	"context"
	"database/sql"
	"regexp"
	"strconv"

	"github.com/settlemq/settle/dial"
)

// querier is a transaction, or a database that is read outside of one.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// exec runs a query of db in q.
func exec(ctx context.Context, db *dial.Database, q querier, query string, args ...any) (sql.Result, error) {
	query, args = spoken(db.Dialect, query, args)
	return q.ExecContext(ctx, query, args...)
}

// queryRows is exec for a query that has rows.
func queryRows(ctx context.Context, db *dial.Database, q querier, query string, args ...any) (*sql.Rows, error) {
	query, args = spoken(db.Dialect, query, args)
	return q.QueryContext(ctx, query, args...)
}

// queryRow is exec for a query that has one row.
func queryRow(ctx context.Context, db *dial.Database, q querier, query string, args ...any) *sql.Row {
	query, args = spoken(db.Dialect, query, args)
	return q.QueryRowContext(ctx, query, args...)
}

var numbered = regexp.MustCompile(`\$[0-9]+`)

// spoken returns a query and its parameters as a database takes them. Queries
// are written with $1, which SQLite and PostgreSQL read; MySQL takes a ? each
// time, and a few queries in words of its own.
func spoken(dialect dial.Dialect, query string, args []any) (string, []any) {
	if dialect != dial.MySQL {
		return query, args
	}
	var all []any
	query = numbered.ReplaceAllStringFunc(worded(dialect, query), func(number string) string {
		n, err := strconv.Atoi(number[1:])
		if err != nil || n < 1 || n > len(args) {
			return number // the server names it in its error
		}
		all = append(all, args[n-1])
		return "?"
	})
	return query, all
}

// What is inserted was checked before: but for its key nothing about it can be
// wrong, which IGNORE would pass over.
const insertOrderMySQL = `INSERT IGNORE INTO t_order (order_id, request_key, request_hash, customer_id, amount_cents, status, pay, pay_by, version, trace_id, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1, $9, $10, $11)`

// The columns are set one after the other: available is, while initial_qty has
// its old value.
const raiseStockMySQL = `INSERT INTO t_stock (sku, initial_qty, available, reserved, sold) VALUES ($1, $2, $2, 0, 0)
ON DUPLICATE KEY UPDATE available = available + GREATEST($2 - initial_qty, 0), initial_qty = GREATEST($2, initial_qty)`

const moveStockMySQL = `UPDATE t_reservation_line l JOIN t_stock s ON s.sku = l.sku
SET s.available = s.available + $1 * l.qty, s.reserved = s.reserved + $2 * l.qty, s.sold = s.sold + $3 * l.qty
WHERE l.order_id = $4 AND l.state = $5`

const saveInstanceMySQL = `INSERT INTO %s (order_id, state, version, updated_at) VALUES ($1, $2, $3, $4)
ON DUPLICATE KEY UPDATE state = VALUES(state), version = VALUES(version), updated_at = VALUES(updated_at)`

// worded returns a query in the words of a database.
func worded(dialect dial.Dialect, query string) string {
	if dialect != dial.MySQL {
		return query
	}
	switch query {
	case insertOrder:
		return insertOrderMySQL
	case raiseStock:
		return raiseStockMySQL
	case moveStock:
		return moveStockMySQL
	case saveInstance:
		return saveInstanceMySQL
	}
	return query
}
