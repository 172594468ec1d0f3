package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
)

// raw is the least that carrying events can cost: read the next 1,000 by
// primary key, encode each, write down how far it came. It is no relay: it
// loses every event whose transaction commits after a later one was read, it
// knows no failures, and two of them send everything twice.
func raw() contender {
	return contender{name: rawName, title: "raw limit: cursor, encode, checkpoint per 1,000", layout: logLayout, carry: carryRaw}
}

const (
	rawRead = `SELECT id, event_id, event_type, aggregate_type, aggregate_id, aggregate_seq, coalesce(biz_key, ''), coalesce(trace_id, ''), coalesce(causation_id, ''),
 topic, version, content_type, occurred_at, appended_at, payload FROM t_outbox_event WHERE id > $1 ORDER BY id LIMIT 1000`
	rawFound = `SELECT coalesce(max(cursor), 0) FROM checkpoint`
	rawWrite = `INSERT INTO checkpoint (cursor) VALUES ($1)`
)

// rawPause is the wait after a read that found nothing.
const rawPause = time.Millisecond

func carryRaw(ctx context.Context, c conditions) error {
	work := context.WithoutCancel(ctx)
	conn, err := pgx.Connect(work, c.url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(work) }()
	var cursor int64
	if err := conn.QueryRow(work, rawFound).Scan(&cursor); err != nil {
		return err
	}
	var envelope []byte
	for ctx.Err() == nil {
		before := cursor
		rows, err := conn.Query(work, rawRead, cursor)
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
		if _, err := conn.Exec(work, rawWrite, cursor); err != nil {
			return err
		}
	}
	return nil
}
