package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/settlemq/settle/store/consumelog"
)

const setFloor = `INSERT INTO t_consume_floor (consumer_group, dedup_floor) VALUES (?, ?)
ON CONFLICT (consumer_group) DO UPDATE SET dedup_floor = max(dedup_floor, excluded.dedup_floor)
RETURNING dedup_floor, forgotten_no`

const readForgettable = `SELECT processed_no, consumer_group, status, appended_at, processed_at FROM t_message_consume_log
WHERE processed_no > ? ORDER BY processed_no LIMIT ?`

const forgetRow = `DELETE FROM t_message_consume_log WHERE processed_no = ?`

const setForgotten = `UPDATE t_consume_floor SET forgotten_no = ? WHERE consumer_group = ?`

// Forget implements settle.Inbox. It walks the log in the order it was written
// and stops at the first row that is younger than the floor: what was recorded
// before the floor was appended before it. Rows that wait or are dead stay;
// when they end they move to the log's end.
func (in *Inbox) Forget(ctx context.Context, group string, before time.Time, limit int) (int, error) {
	tx, err := in.s.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	var floor, cursor int64
	if err := tx.QueryRowContext(ctx, setFloor, group, before.UnixMicro()).Scan(&floor, &cursor); err != nil {
		return 0, fmt.Errorf("set dedup floor of group %s: %w", group, err)
	}
	cursor, gone, err := forgettable(ctx, tx, group, floor, cursor, limit)
	if err != nil {
		return 0, fmt.Errorf("forget events of group %s: %w", group, err)
	}
	for _, no := range gone {
		if _, err := tx.ExecContext(ctx, forgetRow, no); err != nil {
			return 0, fmt.Errorf("forget events of group %s: %w", group, err)
		}
	}
	if _, err := tx.ExecContext(ctx, setForgotten, cursor, group); err != nil {
		return 0, fmt.Errorf("forget events of group %s: %w", group, err)
	}
	// Crash here: neither the floor has moved nor a row gone.
	if err := tx.Commit(); err != nil {
		return 0, fmt.Errorf("forget events of group %s: %w", group, err)
	}
	return len(gone), nil
}

// forgettable returns at most limit rows to delete, and how far it has looked:
// at most four rows for each that it may return.
func forgettable(ctx context.Context, tx *sql.Tx, group string, floor, cursor int64, limit int) (int64, []int64, error) {
	var gone []int64
	stop := false
	err := each(ctx, tx, func(rows *sql.Rows) error {
		var no, processed int64
		var of, status string
		var appended sql.NullInt64
		if err := rows.Scan(&no, &of, &status, &appended, &processed); err != nil {
			return err
		}
		if stop = stop || processed >= floor || len(gone) >= limit; stop {
			return nil
		}
		cursor = no
		if of == group && consumelog.Final(status) && appended.Valid && appended.Int64 < floor {
			gone = append(gone, no)
		}
		return nil
	}, readForgettable, cursor, 4*limit)
	return cursor, gone, err
}
