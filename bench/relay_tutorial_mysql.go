package main

import (
	"context"
	"database/sql"
	"errors"

	"github.com/settlemq/settle"
)

func tutorialOnMySQL() contender { return tutorial(queueOnMySQL, carryTutorialOnMySQL) }

const (
	tutorialFindMySQL = `SELECT id, event_id, event_type, aggregate_type, aggregate_id, created_at, payload FROM t_outbox_event FORCE INDEX (i_outbox_pending)
 WHERE status = 'PENDING' AND next_retry_time <= CURRENT_TIMESTAMP(6) ORDER BY id LIMIT 100`
	tutorialSentMySQL  = `UPDATE t_outbox_event SET status = 'SENT', updated_at = CURRENT_TIMESTAMP(6) WHERE id = ?`
	tutorialAgainMySQL = `UPDATE t_outbox_event SET retry_count = retry_count + 1, next_retry_time = CURRENT_TIMESTAMP(6) + INTERVAL 30 SECOND, last_error = ?, updated_at = CURRENT_TIMESTAMP(6) WHERE id = ?`
)

func carryTutorialOnMySQL(ctx context.Context, c conditions) error {
	work := context.WithoutCancel(ctx)
	db, conn, err := connectForWork(work, c.url)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	for ctx.Err() == nil {
		found, err := tutorialRoundOnMySQL(work, conn, c.out)
		if err != nil {
			return err
		}
		if found < 100 {
			pause(ctx, tutorialPause)
		}
	}
	return nil
}

func tutorialRoundOnMySQL(ctx context.Context, conn *sql.Conn, out *sink) (found int, err error) {
	pending, err := tutorialPendingOnMySQL(ctx, conn)
	if err != nil {
		return 0, err
	}
	for _, row := range pending {
		err := out.publish(row.event.ID, settle.AppendEnvelope(nil, &row.event))
		switch {
		case errors.Is(err, errRefused):
			_, err = conn.ExecContext(ctx, tutorialAgainMySQL, errRefused.Error(), row.id)
		case err == nil:
			// Crash here: the broker has it, and its row is pending.
			_, err = conn.ExecContext(ctx, tutorialSentMySQL, row.id)
		}
		if err != nil {
			return 0, err
		}
	}
	return len(pending), nil
}

func tutorialPendingOnMySQL(ctx context.Context, conn *sql.Conn) (pending []tutorialRow, err error) {
	rows, err := conn.QueryContext(ctx, tutorialFindMySQL)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var t tutorialRow
		e := &t.event
		if err := rows.Scan(&t.id, &e.ID, &e.Type, &e.AggregateType, &e.AggregateID, &e.OccurredAt, &e.Payload); err != nil {
			return nil, err
		}
		pending = append(pending, t)
	}
	return pending, rows.Err()
}
