package drill

import (
	"context"
	"crypto/sha256"
	"database/sql"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
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
// rows to the table of that name. The queries may use :service. A column
// called payload becomes payload_hash; a row of audit_log gets its row_sum.
func (f *Facts) Copy(ctx context.Context, service string, from *sql.DB, export string) error {
	queries, err := parseQueries(export)
	if err != nil {
		return err
	}
	for _, q := range queries {
		if err := f.copyQuery(ctx, service, from, q); err != nil {
			return fmt.Errorf("copy %s of %s: %w", q.id, service, err)
		}
	}
	return nil
}

// CopyFile does the same with an SQLite file that nobody writes any more: the
// ledger of an outside system.
func (f *Facts) CopyFile(ctx context.Context, service, path, export string) error {
	db, err := sql.Open("sqlite", "file:"+path+"?mode=rw&_pragma=query_only(1)&_pragma=busy_timeout(5000)")
	if err != nil {
		return fmt.Errorf("open ledger of %s: %w", service, err)
	}
	return errors.Join(f.Copy(ctx, service, db, export), db.Close())
}

func (f *Facts) copyQuery(ctx context.Context, service string, from *sql.DB, q query) error {
	text, args := bind(q.text, marksOnly(from), sql.Named("service", service))
	rows, err := from.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	cols, err := rows.Columns()
	if err != nil {
		return err
	}
	values, into := make([]any, len(cols)), make([]any, len(cols))
	for i := range values {
		into[i] = &values[i]
	}
	names, derive := derived(q.id, cols)
	return f.Insert(ctx, q.id, names, func(yield func([]any) bool) {
		for rows.Next() {
			if err = rows.Scan(into...); err != nil {
				return
			}
			for i, v := range values {
				if b, ok := v.([]byte); ok {
					values[i] = string(b) // text is bytes to the MySQL driver, and a blob is no text to SQLite
				}
			}
			if !yield(derive(values)) {
				return
			}
		}
		err = rows.Err()
	}, &err)
}

// derived returns the columns that a row gets, and how.
func derived(table string, cols []string) ([]string, func([]any) []any) {
	names := slices.Clone(cols)
	if i := slices.Index(cols, "payload"); i >= 0 {
		names[i] = "payload_hash"
		return names, func(row []any) []any {
			row[i] = payloadHash(row[i])
			return row
		}
	}
	if table == "audit_log" {
		return append(names, "row_sum"), func(row []any) []any {
			return append(slices.Clone(row), auditSum(cols, row))
		}
	}
	return names, func(row []any) []any { return row }
}

// auditSum computes again what an audit row's hash must be: the SHA-256 of its
// fields, each with its length before it.
func auditSum(cols []string, row []any) string {
	h := sha256.New()
	for _, name := range []string{"prev_hash", "seq", "at_us", "actor", "action", "target", "reason"} {
		field := fmt.Sprint(row[slices.Index(cols, name)])
		_, _ = fmt.Fprintf(h, "%d:%s", len(field), field)
	}
	return hex.EncodeToString(h.Sum(nil))
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
