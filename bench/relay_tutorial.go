package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
)

// tutorial is the relay as tutorials write it: find the first 100 pending rows,
// send each, save each. It has the table and index of the classic relay at its
// best, so the difference is the update per row alone; and no pause while there
// is more, although most are scheduled once a second.
func tutorial() contender {
	return contender{name: "tutorial", title: "as tutorials write it (update per row)", layout: queueLayout, carry: carryTutorial, share: 10}
}

const (
	tutorialFind = `SELECT id, event_id, event_type, aggregate_type, aggregate_id, created_at, payload FROM t_outbox_event
 WHERE status = 'PENDING' AND next_retry_time <= now() ORDER BY id LIMIT 100`
	tutorialSent  = `UPDATE t_outbox_event SET status = 'SENT', updated_at = now() WHERE id = $1`
	tutorialAgain = `UPDATE t_outbox_event SET retry_count = retry_count + 1, next_retry_time = now() + interval '30 seconds', last_error = $2, updated_at = now() WHERE id = $1`
)

// tutorialPause is the wait after fewer than 100 were found.
const tutorialPause = 100 * time.Millisecond

// tutorialRow is a row as an object mapper would have it.
type tutorialRow struct {
	id    int64
	event settle.Event
}

func carryTutorial(ctx context.Context, c conditions) error {
	work := context.WithoutCancel(ctx)
	conn, err := pgx.Connect(work, c.url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(work) }()
	for ctx.Err() == nil {
		found, err := tutorialRound(work, conn, c.out)
		if err != nil {
			return err
		}
		if found < 100 {
			pause(ctx, tutorialPause)
		}
	}
	return nil
}

func tutorialRound(ctx context.Context, conn *pgx.Conn, out *sink) (found int, err error) {
	rows, err := conn.Query(ctx, tutorialFind)
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
			_, err = conn.Exec(ctx, tutorialAgain, row.id, errRefused.Error())
		case err == nil:
			// Crash here: the broker has it, and its row is pending.
			_, err = conn.Exec(ctx, tutorialSent, row.id)
		}
		if err != nil {
			return 0, err
		}
	}
	return len(pending), nil
}
