package drill

import (
	"context"
	"crypto/sha256"
	"database/sql"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"

	_ "modernc.org/sqlite" // the scratch database
)

//go:embed sql/schema.sql
var factsSchema string

// Facts is the scratch database that holds the facts of all services, of the
// broker and of the clients side by side; see sql/schema.sql for its tables.
// It is used by one goroutine.
type Facts struct{ db *sql.DB }

// OpenFacts makes a scratch database in a new file at path.
func OpenFacts(ctx context.Context, path string) (*Facts, error) {
	// Scratch: if we die, nobody misses it.
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(OFF)&_pragma=synchronous(OFF)")
	if err != nil {
		return nil, fmt.Errorf("open scratch database: %w", err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, factsSchema); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("make scratch database: %w", err)
	}
	return &Facts{db: db}, nil
}

// Close closes the database; its file stays.
func (f *Facts) Close() error { return f.db.Close() }

// Copy runs each query of a service's export on its database and adds the
// rows to the table of that name. A column called payload becomes
// payload_hash.
func (f *Facts) Copy(ctx context.Context, from *sql.DB, export string) error {
	queries, err := parseQueries(export)
	if err != nil {
		return err
	}
	for _, q := range queries {
		if err := f.copyQuery(ctx, from, q); err != nil {
			return fmt.Errorf("copy %s: %w", q.id, err)
		}
	}
	return nil
}

func (f *Facts) copyQuery(ctx context.Context, from *sql.DB, q query) error {
	rows, err := from.QueryContext(ctx, q.text)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	cols, err := rows.Columns()
	if err != nil {
		return err
	}
	names := make([]string, len(cols))
	values, into := make([]any, len(cols)), make([]any, len(cols))
	payload := -1
	for i, c := range cols {
		names[i], into[i] = c, &values[i]
		if c == "payload" {
			names[i], payload = "payload_hash", i
		}
	}
	return f.Insert(ctx, q.id, names, func(yield func([]any) bool) {
		for rows.Next() {
			if err = rows.Scan(into...); err != nil {
				return
			}
			if payload >= 0 {
				values[payload] = payloadHash(values[payload])
			}
			if !yield(values) {
				return
			}
		}
		err = rows.Err()
	}, &err)
}

// Insert adds rows to a table in one transaction, unless *failed is set when
// they have ended.
func (f *Facts) Insert(ctx context.Context, table string, cols []string, rows func(yield func([]any) bool), failed *error) error {
	tx, err := f.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	stmt, err := tx.PrepareContext(ctx, "INSERT INTO "+table+" ("+strings.Join(cols, ", ")+") VALUES (?"+strings.Repeat(", ?", len(cols)-1)+")")
	if err != nil {
		return err
	}
	for row := range rows {
		if _, err := stmt.ExecContext(ctx, row...); err != nil {
			return fmt.Errorf("insert %v: %w", row, err)
		}
	}
	if failed != nil && *failed != nil {
		return *failed
	}
	return tx.Commit()
}

func payloadHash(v any) string {
	var b []byte
	switch v := v.(type) {
	case []byte:
		b = v
	case string:
		b = []byte(v)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// number runs a query that returns one number.
func (f *Facts) number(ctx context.Context, text string) (int64, error) {
	var n int64
	err := f.db.QueryRowContext(ctx, text).Scan(&n)
	return n, err
}
