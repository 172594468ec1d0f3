package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"
)

// snapshot begins a transaction that reads one committed state of the file
// and can't write. It is ended by Rollback.
func (s *Store) snapshot(ctx context.Context) (*sql.Tx, error) {
	tx, err := s.reader.BeginTx(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("begin reading: %w", err)
	}
	return tx, nil
}

// each runs a query and calls scan for each row.
func each(ctx context.Context, tx *sql.Tx, scan func(*sql.Rows) error, query string, args ...any) error {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// list is a parameter of json_each. Of none it is an empty one: the null that
// a nil slice encodes to would be a list of one null.
func list[T string | int64](of []T) string {
	b, err := json.Marshal(of)
	if err != nil || len(of) == 0 { // strings and integers always encode
		return "[]"
	}
	return string(b)
}

// text is a nullable column of text: empty is NULL.
func text(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }

// micros is how times are stored; nil for the zero time.
func micros(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

func fromMicros(us int64) time.Time { return time.UnixMicro(us).UTC() }

// when reads a nullable column of time.
func when(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return fromMicros(n.Int64)
}
