package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/settlemq/settle/store/consumelog"
)

const (
	setFloor = `INSERT INTO t_consume_floor (consumer_group, dedup_floor) VALUES (?, ?)
ON DUPLICATE KEY UPDATE dedup_floor = GREATEST(dedup_floor, VALUES(dedup_floor))`

	readFloor = `SELECT dedup_floor, forgotten_no FROM t_consume_floor WHERE consumer_group = ?`

	readForgettable = `SELECT processed_no, consumer_group, status, appended_at, processed_at FROM t_message_consume_log
WHERE processed_no > ? ORDER BY processed_no LIMIT ?`

	// By the index also where the table is short: a scan would wait for what others
	// are at work on.
	forgetRow    = `DELETE l FROM t_message_consume_log l FORCE INDEX (PRIMARY) WHERE l.processed_no IN `
	setForgotten = `UPDATE t_consume_floor SET forgotten_no = ? WHERE consumer_group = ?`
)

// maxForget bounds what one transaction deletes: until it has ended all that it
// has deleted is kept for those who read what was before.
const maxForget = 1000

// Forget implements settle.Inbox. It walks the log in the order it was written
// and stops at the first row that is younger than the floor: what was recorded
// before the floor was appended before it. Rows that wait or are dead stay;
// when they end they move to the log's end.
func (in *Inbox) Forget(ctx context.Context, group string, before time.Time, limit int) (int, error) {
	total := 0
	for {
		some := min(limit-total, maxForget)
		gone := 0
		err := in.s.write(ctx, in.s.own, func(tx *sql.Tx) (err error) {
			gone, err = forget(ctx, tx, group, before, some)
			// Crash here: neither the floor has moved nor a row gone.
			return err
		})
		if err != nil {
			return total, fmt.Errorf("forget events of group %s: %w", group, err)
		}
		if total += gone; gone < some || total >= limit {
			return total, nil
		}
	}
}

func forget(ctx context.Context, tx *sql.Tx, group string, before time.Time, limit int) (int, error) {
	if _, err := tx.ExecContext(ctx, setFloor, group, before.UTC()); err != nil {
		return 0, err
	}
	var floor time.Time
	var was int64
	if err := tx.QueryRowContext(ctx, readFloor, group).Scan(&floor, &was); err != nil {
		return 0, err
	}
	cursor, rows, err := forgettable(ctx, tx, group, floor, was, limit)
	if err != nil {
		return 0, err
	}
	if len(rows) > 0 {
		if _, err := tx.ExecContext(ctx, forgetRow+places(len(rows)), rows...); err != nil {
			return 0, err
		}
	}
	if cursor > was {
		_, err = tx.ExecContext(ctx, setForgotten, cursor, group)
	}
	return len(rows), err
}

// forgettable returns at most limit rows to delete, and how far it has looked:
// at most four rows for each that it may return.
func forgettable(ctx context.Context, tx *sql.Tx, group string, floor time.Time, cursor int64, limit int) (int64, []any, error) {
	var gone []any
	var no int64
	var of, status string
	var appended, processed sql.NullTime
	stop := false
	err := each(ctx, tx, []any{&no, &of, &status, &appended, &processed}, func() {
		if stop = stop || !processed.Time.Before(floor) || len(gone) >= limit; stop {
			return
		}
		cursor = no
		if of == group && consumelog.Final(status) && appended.Valid && appended.Time.Before(floor) {
			gone = append(gone, no)
		}
	}, readForgettable, cursor, 4*limit)
	return cursor, gone, err
}
