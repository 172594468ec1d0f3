package main

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
)

// classic is the queue by status at its best: one connection claims 1,000
// pending rows with SKIP LOCKED, sends them all, and marks them with one update
// in the same transaction. Its index is partial, so that sent rows leave it.
func classic() contender {
	return contender{name: "classic", title: "classic relay at its best (SKIP LOCKED 1,000, one update)", layout: queueLayout, carry: carryClassic}
}

const (
	classicClaim = `SELECT id, event_id, event_type, aggregate_type, aggregate_id, created_at, payload FROM t_outbox_event
 WHERE status = 'PENDING' AND next_retry_time <= now() ORDER BY id LIMIT 1000 FOR UPDATE SKIP LOCKED`
	classicSent  = `UPDATE t_outbox_event SET status = 'SENT', updated_at = now() WHERE id = ANY($1)`
	classicAgain = `UPDATE t_outbox_event SET retry_count = retry_count + 1, next_retry_time = now() + interval '30 seconds', last_error = $2, updated_at = now() WHERE id = ANY($1)`
)

// classicPause is the wait after a claim that found fewer than it asked for.
const classicPause = 5 * time.Millisecond

func carryClassic(ctx context.Context, c conditions) error {
	work := context.WithoutCancel(ctx)
	conn, err := pgx.Connect(work, c.url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(work) }()
	batch := classicBatch{out: c.out}
	for ctx.Err() == nil {
		claimed, err := batch.move(work, conn)
		if err != nil {
			return err
		}
		if claimed < 1000 {
			pause(ctx, classicPause)
		}
	}
	return nil
}

// classicBatch is the memory of one batch, used again by the next.
type classicBatch struct {
	out          *sink
	sent, failed []int64
	envelope     []byte
}

func (b *classicBatch) move(ctx context.Context, conn *pgx.Conn) (claimed int, err error) {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if claimed, err = b.send(ctx, tx); err != nil {
		return 0, err
	}
	if len(b.sent) > 0 {
		if _, err := tx.Exec(ctx, classicSent, b.sent); err != nil {
			return 0, err
		}
	}
	if len(b.failed) > 0 {
		if _, err := tx.Exec(ctx, classicAgain, b.failed, errRefused.Error()); err != nil {
			return 0, err
		}
	}
	// Crash here: the broker has the batch, and all its rows are pending.
	return claimed, tx.Commit(ctx)
}

func (b *classicBatch) send(ctx context.Context, tx pgx.Tx) (claimed int, err error) {
	b.sent, b.failed = b.sent[:0], b.failed[:0]
	rows, err := tx.Query(ctx, classicClaim)
	if err != nil {
		return 0, err
	}
	var id int64
	var e settle.Event
	_, err = pgx.ForEachRow(rows, []any{&id, &e.ID, &e.Type, &e.AggregateType, &e.AggregateID, &e.OccurredAt, &e.Payload}, func() error {
		claimed++
		b.envelope = settle.AppendEnvelope(b.envelope[:0], &e)
		switch err := b.out.publish(e.ID, b.envelope); {
		case errors.Is(err, errRefused):
			b.failed = append(b.failed, id)
		case err != nil:
			return err
		default:
			b.sent = append(b.sent, id)
		}
		return nil
	})
	return claimed, err
}
