package main

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
)

func rawOnPostgres() contender { return raw(logOnPostgres, carryRawOnPostgres) }

const (
	rawReadPostgres = `SELECT id, event_id, event_type, aggregate_type, aggregate_id, aggregate_seq, coalesce(biz_key, ''), coalesce(trace_id, ''), coalesce(causation_id, ''),
 topic, version, content_type, occurred_at, appended_at, payload FROM t_outbox_event WHERE id > $1 ORDER BY id LIMIT 1000`
	rawFoundPostgres = `SELECT coalesce(max(cursor), 0) FROM checkpoint`
	rawWritePostgres = `INSERT INTO checkpoint (cursor) VALUES ($1)`
)

func carryRawOnPostgres(ctx context.Context, c conditions) error {
	work := context.WithoutCancel(ctx)
	conn, err := pgx.Connect(work, c.url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(work) }()
	var cursor int64
	if err := conn.QueryRow(work, rawFoundPostgres).Scan(&cursor); err != nil {
		return err
	}
	var envelope []byte
	for ctx.Err() == nil {
		before := cursor
		rows, err := conn.Query(work, rawReadPostgres, cursor)
		if err != nil {
			return err
		}
		for rows.Next() {
			var e settle.Event
			if err := rows.Scan(&cursor, &e.ID, &e.Type, &e.AggregateType, &e.AggregateID, &e.AggregateSeq, &e.BizKey, &e.TraceID, &e.CausationID,
				&e.Topic, &e.Version, &e.ContentType, &e.OccurredAt, &e.AppendedAt, &e.Payload); err != nil {
				return err
			}
			envelope = settle.AppendEnvelope(envelope[:0], &e)
			if err := c.out.publish(e.ID, envelope); err != nil {
				return err
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
		if cursor == before {
			pause(ctx, rawPause)
			continue
		}
		if _, err := conn.Exec(work, rawWritePostgres, cursor); err != nil {
			return err
		}
	}
	return nil
}
