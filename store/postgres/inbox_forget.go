package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/settlemq/settle/store/consumelog"
)

const setFloor = `INSERT INTO t_consume_floor AS f (consumer_group, dedup_floor) VALUES ($1, $2)
ON CONFLICT (consumer_group) DO UPDATE SET dedup_floor = greatest(f.dedup_floor, excluded.dedup_floor)
RETURNING dedup_floor, forgotten_no`

const readForgettable = `SELECT processed_no, consumer_group, status, appended_at, processed_at FROM t_message_consume_log
WHERE processed_no > $1 ORDER BY processed_no LIMIT $2`

const (
	forgetRows   = `DELETE FROM t_message_consume_log WHERE processed_no = ANY($1)`
	setForgotten = `UPDATE t_consume_floor SET forgotten_no = $1 WHERE consumer_group = $2`
)

// Forget implements settle.Inbox. It walks the log in the order it was written
// and stops at the first row that is younger than the floor: what was recorded
// before the floor was appended before it. Rows that wait or are dead stay;
// when they end they move to the log's end.
func (in *Inbox) Forget(ctx context.Context, group string, before time.Time, limit int) (int, error) {
	gone := 0
	err := in.s.write(ctx, in.s.business, func(tx pgx.Tx) error {
		var floor time.Time
		var cursor int64
		if err := tx.QueryRow(ctx, setFloor, group, before).Scan(&floor, &cursor); err != nil {
			return err
		}
		cursor, rows, err := forgettable(ctx, tx, group, floor, cursor, limit)
		if err != nil {
			return err
		}
		var b pgx.Batch
		b.Queue(forgetRows, rows)
		b.Queue(setForgotten, cursor, group)
		gone = len(rows)
		// Crash here: neither the floor has moved nor a row gone.
		return tx.SendBatch(ctx, &b).Close()
	})
	if err != nil {
		return 0, fmt.Errorf("forget events of group %s: %w", group, err)
	}
	return gone, nil
}

// forgettable returns at most limit rows to delete, and how far it has looked:
// at most four rows for each that it may return.
func forgettable(ctx context.Context, tx pgx.Tx, group string, floor time.Time, cursor int64, limit int) (int64, []int64, error) {
	gone := []int64{}
	var no int64
	var of, status string
	var appended, processed pgtype.Timestamptz
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
