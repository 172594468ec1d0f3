package main

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
)

// classicOnPostgres has a partial index, so that sent rows leave it.
func classicOnPostgres() contender { return classic(queueOnPostgres, carryClassicOnPostgres) }

const (
	classicClaimPostgres = `SELECT id, event_id, event_type, aggregate_type, aggregate_id, created_at, payload FROM t_outbox_event
 WHERE status = 'PENDING' AND next_retry_time <= now() ORDER BY id LIMIT 1000 FOR UPDATE SKIP LOCKED`
	classicSentPostgres  = `UPDATE t_outbox_event SET status = 'SENT', updated_at = now() WHERE id = ANY($1)`
	classicAgainPostgres = `UPDATE t_outbox_event SET retry_count = retry_count + 1, next_retry_time = now() + interval '30 seconds', last_error = $2, updated_at = now() WHERE id = ANY($1)`
)

func carryClassicOnPostgres(ctx context.Context, c conditions) error {
	work := context.WithoutCancel(ctx)
	conn, err := pgx.Connect(work, c.url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(work) }()
	batch := classicBatch{out: c.out}
	for ctx.Err() == nil {
		claimed, err := moveOnPostgres(work, conn, &batch)
		if err != nil {
			return err
		}
		if claimed < 1000 {
			pause(ctx, classicPause)
		}
	}
	return nil
}

func moveOnPostgres(ctx context.Context, conn *pgx.Conn, b *classicBatch) (claimed int, err error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if claimed, err = claimOnPostgres(ctx, tx, b); err != nil {
		return 0, err
	}
	if len(b.sent) > 0 {
		if _, err := tx.Exec(ctx, classicSentPostgres, b.sent); err != nil {
			return 0, err
		}
	}
	if len(b.failed) > 0 {
		if _, err := tx.Exec(ctx, classicAgainPostgres, b.failed, errRefused.Error()); err != nil {
			return 0, err
		}
	}
	// Crash here: the broker has the batch, and all its rows are pending.
	return claimed, tx.Commit(ctx)
}

func claimOnPostgres(ctx context.Context, tx pgx.Tx, b *classicBatch) (claimed int, err error) {
	b.sent, b.failed = b.sent[:0], b.failed[:0]
	rows, err := tx.Query(ctx, classicClaimPostgres)
	if err != nil {
		return 0, err
	}
	var id int64
	var e settle.Event
	_, err = pgx.ForEachRow(rows, []any{&id, &e.ID, &e.Type, &e.AggregateType, &e.AggregateID, &e.OccurredAt, &e.Payload}, func() error {
		claimed++
		return b.send(id, &e)
	})
	return claimed, err
}
