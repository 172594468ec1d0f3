package concurrent

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
)

// Dialect is how a kind of database writes the SQL of a business.
type Dialect struct {
	// Serial is the type of a primary key that counts up, Text that of a text
	// which may be a key.
	Serial, Text string
	// Dollars writes parameters as $1, $2, … instead of ?. Defaults to false.
	Dollars bool
}

// sql returns a query, written with ?, as the database wants it.
func (d Dialect) sql(query string) string {
	if !d.Dollars {
		return query
	}
	var out strings.Builder
	n := 0
	for _, c := range query {
		if c != '?' {
			out.WriteRune(c)
			continue
		}
		n++
		out.WriteString("$" + strconv.Itoa(n))
	}
	return out.String()
}

// CreateEffects returns the statement that makes the table of effects, unless it
// is there.
func (d Dialect) CreateEffects() string {
	return `CREATE TABLE IF NOT EXISTS t_effect (id ` + d.Serial + `, row_id ` + d.Text + ` NOT NULL)`
}

const addEffect = `INSERT INTO t_effect (row_id) VALUES (?)`

// WriteEffect writes a row of the business in tx.
func (d Dialect) WriteEffect(ctx context.Context, tx *sql.Tx, row string) error {
	_, err := tx.ExecContext(ctx, d.sql(addEffect), row)
	return err
}

const effectRows = `SELECT row_id FROM t_effect ORDER BY id`

// Effects returns the rows that are committed, in the order in which they were
// written.
func Effects(ctx context.Context, db *sql.DB) ([]string, error) { return texts(ctx, db, effectRows) }

// texts returns what a query of one text gives.
func texts(ctx context.Context, db *sql.DB, query string, args ...any) ([]string, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var out []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	return out, rows.Err()
}
