package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/store/adopt"
	"github.com/settlemq/settle/store/migrate"
)

const (
	// One seek for each word, where an index begins with the status.
	seekWords = `WITH RECURSIVE w(word) AS (
 (SELECT status FROM %[1]s ORDER BY status LIMIT 1) UNION ALL
 SELECT (SELECT status FROM %[1]s WHERE status > w.word ORDER BY status LIMIT 1) FROM w WHERE w.word IS NOT NULL)
SELECT word::text FROM w WHERE word IS NOT NULL LIMIT 50`
	scanWords = `SELECT DISTINCT status::text FROM (SELECT status FROM %[1]s ORDER BY id DESC LIMIT 1000000) newest LIMIT 50`

	countWord = `SELECT count(*) FROM (SELECT FROM %s WHERE status = %s LIMIT %d) c`

	hasStatusIndex = `SELECT EXISTS (SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indrelid = to_regclass($1) AND i.indisvalid AND i.indpred IS NULL AND a.attname = 'status')`

	// The labels of an enumerated type; empty for another type.
	statusLabels = `SELECT coalesce(array_agg(e.enumlabel::text), '{}') FROM pg_attribute a JOIN pg_enum e ON e.enumtypid = a.atttypid
WHERE a.attrelid = to_regclass($1) AND a.attname = 'status'`
)

func (a *Adopt) statuses(ctx context.Context, l *adoptLook) error {
	table := l.adoption.table()
	var labels []string
	if err := l.conn.QueryRow(ctx, statusLabels, table).Scan(&labels); err != nil {
		return err
	}
	if err := l.conn.QueryRow(ctx, hasStatusIndex, table).Scan(&l.Plan.StatusIndex); err != nil {
		return err
	}
	l.adoption.StatusIndex = l.Plan.StatusIndex
	query := scanWords
	if l.Plan.StatusIndex {
		query = seekWords
	} else {
		l.Note("no index begins with the status: rows that wait are looked for in the whole table now, and are not found if their status is set back later; CREATE INDEX CONCURRENTLY ON %s (status, id)", l.Plan.Table)
	}
	rows, err := l.conn.Query(ctx, fmt.Sprintf(query, table))
	if err != nil {
		return err
	}
	words, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	l.Words(words, labels)
	for _, word := range words {
		var rows int64
		if err := l.conn.QueryRow(ctx, fmt.Sprintf(countWord, table, literal(word), migrate.CountLimit)).Scan(&rows); err != nil {
			return err
		}
		l.Rows(word, rows)
	}
	return nil
}

const newestPayloads = `SELECT event_id::text, %s FROM %s e ORDER BY id DESC LIMIT 20`

func (a *Adopt) payload(ctx context.Context, l *adoptLook) error {
	rows, err := l.conn.Query(ctx, fmt.Sprintf(newestPayloads, l.adoption.bytes(), l.adoption.table()))
	if err != nil {
		return err
	}
	var p adopt.Payloads
	var id string
	var payload []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &payload}, func() error {
		p.Add(id, payload)
		return nil
	})
	if err != nil {
		return err
	}
	l.Payload(p)
	if l.adoption.Columns["payload"] == "jsonb" {
		l.Note("jsonb: consumers get the payload as the database writes it (keys sorted, spaces set), as they do now")
	}
	return nil
}
