package main

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
)

// rawTo is the least that carrying events to a broker can cost: read the next
// 1,000 by primary key, publish them, wait, write down how far it came. It is no
// relay: see relay_raw.go.
func rawTo(target, client string, open func(c conditions) (rawPublisher, error)) contender {
	return contender{name: target + "-" + rawName, title: "raw poll loop, 1,000 at a time, and " + client, layout: logOnPostgres, carry: func(ctx context.Context, c conditions) error {
		p, err := open(c)
		if err != nil {
			return err
		}
		defer p.close()
		return drainRaw(ctx, c, p)
	}}
}

// rawPublisher is a client of a broker.
type rawPublisher interface {
	// publish hands a message over, flush waits for all that were.
	publish(m settle.Message, acknowledged func(id string) error) error
	flush(acknowledged func(id string) error) error
	close()
}

func drainRaw(ctx context.Context, c conditions, p rawPublisher) error {
	work := context.WithoutCancel(ctx)
	conn, err := pgx.Connect(work, c.url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(work) }()
	for cursor := int64(0); ctx.Err() == nil; {
		before := cursor
		if cursor, err = drainPage(work, conn, cursor, c, p); err != nil {
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

// drainPage publishes what stands behind the cursor.
func drainPage(ctx context.Context, conn *pgx.Conn, cursor int64, c conditions, p rawPublisher) (int64, error) {
	rows, err := conn.Query(ctx, rawReadPostgres, cursor)
	if err != nil {
		return cursor, err
	}
	defer rows.Close()
	for rows.Next() {
		var e settle.Event
		if err := rows.Scan(&cursor, &e.ID, &e.Type, &e.AggregateType, &e.AggregateID, &e.AggregateSeq, &e.BizKey, &e.TraceID, &e.CausationID,
			&e.Topic, &e.Version, &e.ContentType, &e.OccurredAt, &e.AppendedAt, &e.Payload); err != nil {
			return cursor, err
		}
		if err := p.publish(messageOf(&e), c.out.acknowledged); err != nil {
			return cursor, err
		}
	}
	if err := rows.Err(); err != nil {
		return cursor, err
	}
	return cursor, p.flush(c.out.acknowledged)
}

// messageOf is what travels of an event from a table.
func messageOf(e *settle.Event) settle.Message {
	e.Topic = drainTopic
	return settle.Message{ID: e.ID, Event: e, Epoch: 1, Source: "bench"}
}
