package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/settlemq/settle"
)

// classicOnMySQL reads by the index of the status whatever the optimizer thinks,
// and read committed, so that it locks the rows that it takes and nothing between.
func classicOnMySQL() contender { return classic(queueOnMySQL, carryClassicOnMySQL) }

const (
	classicClaimMySQL = `SELECT id, event_id, event_type, aggregate_type, aggregate_id, created_at, payload FROM t_outbox_event FORCE INDEX (i_outbox_pending)
 WHERE status = 'PENDING' AND next_retry_time <= CURRENT_TIMESTAMP(6) ORDER BY id LIMIT 1000 FOR UPDATE SKIP LOCKED`
	classicSentMySQL  = `UPDATE t_outbox_event SET status = 'SENT', updated_at = CURRENT_TIMESTAMP(6) WHERE id IN (%s)`
	classicAgainMySQL = `UPDATE t_outbox_event SET retry_count = retry_count + 1, next_retry_time = CURRENT_TIMESTAMP(6) + INTERVAL 30 SECOND, last_error = ?, updated_at = CURRENT_TIMESTAMP(6) WHERE id IN (%s)`
)

func carryClassicOnMySQL(ctx context.Context, c conditions) error {
	work := context.WithoutCancel(ctx)
	db, conn, err := connectForWork(work, c.url)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	batch := classicBatch{out: c.out}
	for ctx.Err() == nil {
		claimed, err := moveOnMySQL(work, conn, &batch)
		if err != nil {
			return err
		}
		if claimed < 1000 {
			pause(ctx, classicPause)
		}
	}
	return nil
}

func moveOnMySQL(ctx context.Context, conn *sql.Conn, b *classicBatch) (claimed int, err error) {
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	if claimed, err = claimOnMySQL(ctx, tx, b); err != nil {
		return 0, err
	}
	if len(b.sent) > 0 {
		if _, err := tx.ExecContext(ctx, fmt.Sprintf(classicSentMySQL, listed(b.sent))); err != nil {
			return 0, err
		}
	}
	if len(b.failed) > 0 {
		if _, err := tx.ExecContext(ctx, fmt.Sprintf(classicAgainMySQL, listed(b.failed)), errRefused.Error()); err != nil {
			return 0, err
		}
	}
	// Crash here: the broker has the batch, and all its rows are pending.
	return claimed, tx.Commit()
}

func claimOnMySQL(ctx context.Context, tx *sql.Tx, b *classicBatch) (claimed int, err error) {
	b.sent, b.failed = b.sent[:0], b.failed[:0]
	rows, err := tx.QueryContext(ctx, classicClaimMySQL)
	if err != nil {
		return 0, err
	}
	defer func() { _ = rows.Close() }()
	var id int64
	var e settle.Event
	for rows.Next() {
		claimed++
		if err := rows.Scan(&id, &e.ID, &e.Type, &e.AggregateType, &e.AggregateID, &e.OccurredAt, &e.Payload); err != nil {
			return 0, err
		}
		if err := b.send(id, &e); err != nil {
			return 0, err
		}
	}
	return claimed, rows.Err()
}

// listed writes ids as SQL does.
func listed(ids []int64) string {
	return strings.Trim(strings.Join(strings.Fields(fmt.Sprint(ids)), ","), "[]")
}
