package main

import (
	"context"
	"database/sql"

	"github.com/settlemq/settle"
)

func rawOnMySQL() contender { return raw(logOnMySQL, carryRawOnMySQL) }

const (
	rawReadMySQL = `SELECT id, event_id, event_type, aggregate_type, aggregate_id, aggregate_seq, coalesce(biz_key, ''), coalesce(trace_id, ''), coalesce(causation_id, ''),
 topic, version, content_type, occurred_at, appended_at, payload FROM t_outbox_event WHERE id > ? ORDER BY id LIMIT 1000`
	rawFoundMySQL = `SELECT coalesce(max(position), 0) FROM checkpoint`
	rawWriteMySQL = `INSERT INTO checkpoint (position) VALUES (?)`
)

// connectForWork is the connection of a way that needs one.
func connectForWork(ctx context.Context, at string) (*sql.DB, *sql.Conn, error) {
	cfg, err := mysqlConfig(at)
	if err != nil {
		return nil, nil, err
	}
	db, err := connectorOf(cfg)
	if err != nil {
		return nil, nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		_ = db.Close()
	}
	return db, conn, err
}

func carryRawOnMySQL(ctx context.Context, c conditions) error {
	work := context.WithoutCancel(ctx)
	db, conn, err := connectForWork(work, c.url)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	var cursor int64
	if err := conn.QueryRowContext(work, rawFoundMySQL).Scan(&cursor); err != nil {
		return err
	}
	var envelope []byte
	for ctx.Err() == nil {
		before := cursor
		if err := rawPageOnMySQL(work, conn, &cursor, &envelope, c.out); err != nil {
			return err
		}
		if cursor == before {
			pause(ctx, rawPause)
			continue
		}
		if _, err := conn.ExecContext(work, rawWriteMySQL, cursor); err != nil {
			return err
		}
	}
	return nil
}

func rawPageOnMySQL(ctx context.Context, conn *sql.Conn, cursor *int64, envelope *[]byte, out *sink) error {
	rows, err := conn.QueryContext(ctx, rawReadMySQL, *cursor)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var e settle.Event
		if err := rows.Scan(cursor, &e.ID, &e.Type, &e.AggregateType, &e.AggregateID, &e.AggregateSeq, &e.BizKey, &e.TraceID, &e.CausationID,
			&e.Topic, &e.Version, &e.ContentType, &e.OccurredAt, &e.AppendedAt, &e.Payload); err != nil {
			return err
		}
		*envelope = settle.AppendEnvelope((*envelope)[:0], &e)
		if err := out.publish(e.ID, *envelope); err != nil {
			return err
		}
	}
	return rows.Err()
}
