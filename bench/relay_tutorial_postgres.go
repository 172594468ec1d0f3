package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
)

func tutorialOnPostgres() contender { return tutorial(queueOnPostgres, carryTutorialOnPostgres) }

const (
	tutorialFindPostgres = `SELECT id, event_id, event_type, aggregate_type, aggregate_id, created_at, payload FROM t_outbox_event
 WHERE status = 'PENDING' AND next_retry_time <= now() ORDER BY id LIMIT 100`
	tutorialSentPostgres  = `UPDATE t_outbox_event SET status = 'SENT', updated_at = now() WHERE id = $1`
	tutorialAgainPostgres = `UPDATE t_outbox_event SET retry_count = retry_count + 1, next_retry_time = now() + interval '30 seconds', last_error = $2, updated_at = now() WHERE id = $1`
)

func carryTutorialOnPostgres(ctx context.Context, c conditions) error {
	work := context.WithoutCancel(ctx)
	conn, err := pgx.Connect(work, c.url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(work) }()
	for ctx.Err() == nil {
		found, err := tutorialRoundOnPostgres(work, conn, c.out)
		if err != nil {
			return err
		}
		if found < 100 {
			pause(ctx, tutorialPause)
		}
	}
	return nil
}

func tutorialRoundOnPostgres(ctx context.Context, conn *pgx.Conn, out *sink) (found int, err error) {
	rows, err := conn.Query(ctx, tutorialFindPostgres)
	if err != nil {
		return 0, err
	}
	pending, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (t tutorialRow, err error) {
		e := &t.event
		err = r.Scan(&t.id, &e.ID, &e.Type, &e.AggregateType, &e.AggregateID, &e.OccurredAt, &e.Payload)
		return t, err
	})
	if err != nil {
		return 0, err
	}
	for _, row := range pending {
		err := out.publish(row.event.ID, settle.AppendEnvelope(nil, &row.event))
		switch {
		case errors.Is(err, errRefused):
			_, err = conn.Exec(ctx, tutorialAgainPostgres, row.id, errRefused.Error())
		case err == nil:
			// Crash here: the broker has it, and its row is pending.
			_, err = conn.Exec(ctx, tutorialSentPostgres, row.id)
		}
		if err != nil {
			return 0, err
		}
	}
	return len(pending), nil
}
