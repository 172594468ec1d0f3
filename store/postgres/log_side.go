package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

// What stands before rowColumns: id, event id, type, key, topic and message id
// by the side table, attempts, park number, suspect, dead, due time, to whom it
// is owed.
const (
	sideParked = `SELECT p.id, p.event_id, p.event_type, p.aggregate_id, p.destination, p.message_id, p.attempts, p.park_no, p.suspect, p.dead, NULL::timestamptz, NULL::text[], ` +
		rowColumns + `, p.tried_together FROM t_outbox_parked p LEFT JOIN settle_outbox_row() e ON e.id = p.id
WHERE p.destination = $1 AND p.aggregate_id = $2 ORDER BY p.park_no LIMIT $3`

	sideDelayed = `SELECT t.id, t.event_id, '', t.aggregate_id, t.destination, '', 0, 0::bigint, false, false, t.due_at, t.owed, ` +
		rowColumns + ` FROM t_outbox_delayed t LEFT JOIN settle_outbox_row() e ON e.id = t.id
WHERE t.due_at <= $1 AND NOT coalesce(t.owed, ARRAY[t.destination]) <@ $2::text[] ORDER BY t.due_at, t.id LIMIT $3`

	sideExtra = `SELECT x.id, '', '', '', '', x.message_id, 0, 0::bigint, false, false, NULL::timestamptz, x.owed, ` +
		rowColumns + ` FROM t_outbox_extra x LEFT JOIN settle_outbox_row() e ON e.id = x.id
WHERE x.id > $3 AND NOT coalesce(x.owed, ARRAY[coalesce(e.topic, '')]) <@ $1::text[] AND (e.readable OR e.id IS NULL OR x.message_id <> '') ORDER BY x.id LIMIT $2`

	nextDelayed = `SELECT min(due_at) FROM t_outbox_delayed WHERE due_at > $1 AND NOT coalesce(owed, ARRAY[destination]) <@ $2::text[]`
)

// sideRows is how many rows fetchSide reads at once: each may be as large as an
// event can be, and the page goes on while there is room.
const sideRows = 32

// Side implements relay.Store. Of a parked key it returns nothing from its
// first dead row on: those wait for a person.
func (l *Log) Side(ctx context.Context, q relay.SideQuery) (relay.SidePage, error) {
	var p relay.SidePage
	held := q.Held
	if held == nil {
		held = []string{}
	}
	err := l.s.snapshot(ctx, func(tx pgx.Tx) error {
		limit := q.MaxRows + 1
		switch q.Side {
		case relay.SideParked:
			return l.readSide(ctx, tx, q, &p, sideParked, q.Destination, q.Key, limit)
		case relay.SideDelayed:
			query, args := l.ofLane(sideDelayed, sideDelayedOfLane, q.Now.UTC(), held, limit)
			if err := l.readSide(ctx, tx, q, &p, query, args...); err != nil || !p.Next.IsZero() {
				return err
			}
			var next pgtype.Timestamptz
			query, args = l.ofLane(nextDelayed, nextDelayedOfLane, q.Now.UTC(), held)
			err := tx.QueryRow(ctx, query, args...).Scan(&next)
			p.Next = instant(next)
			return err
		default:
			query, args := l.ofLane(sideExtra, sideExtraOfLane, held, limit, q.After)
			return l.readSide(ctx, tx, q, &p, query, args...)
		}
	})
	if err != nil {
		return relay.SidePage{}, fmt.Errorf("read side table: %w", err)
	}
	return p, nil
}

const (
	openSide  = `DECLARE side NO SCROLL CURSOR FOR `
	fetchSide = `FETCH 32 FROM side`

	// Parked rows have a column more: a statement that is prepared once has one shape.
	openParked  = `DECLARE parked NO SCROLL CURSOR FOR `
	fetchParked = `FETCH 32 FROM parked`
)

// readSide reads through a cursor, a few rows at a time: a page of large rows
// is not in memory before it is known to be too large.
func (l *Log) readSide(ctx context.Context, tx pgx.Tx, q relay.SideQuery, p *relay.SidePage, query string, args ...any) error {
	open, fetch := openSide, fetchSide
	if q.Side == relay.SideParked {
		open, fetch = openParked, fetchParked
	}
	if _, err := tx.Exec(ctx, open+query, args...); err != nil {
		return err
	}
	room := outboxlog.Budget{Rows: q.MaxRows, Bytes: q.MaxBytes}
	for {
		v := sideRow{event: eventRow{of: l.s.adopted.decided()}}
		read, done := 0, false
		into := v.into()
		if q.Side == relay.SideParked {
			into = append(into, &v.together)
		}
		err := each(ctx, tx, into, func() {
			read++
			if done = done || v.dead; done {
				return
			}
			row, size := v.row()
			if !room.Takes(size) {
				p.More, p.Next, done = true, instant(v.due), true
				return
			}
			p.Rows = append(p.Rows, row)
		}, fetch)
		if err != nil || done || read < sideRows {
			return err
		}
	}
}

// sideRow is a row of a side table and its event.
type sideRow struct {
	id, parkNo                                int64
	eventID, eventType, key, topic, messageID string
	attempts, together                        int
	suspect, dead                             bool
	due                                       pgtype.Timestamptz
	owed                                      []string
	event                                     eventRow
}

func (r *sideRow) into() []any {
	return append([]any{&r.id, &r.eventID, &r.eventType, &r.key, &r.topic, &r.messageID, &r.attempts, &r.parkNo, &r.suspect, &r.dead, &r.due, &r.owed}, r.event.into()...)
}

func (r *sideRow) row() (relay.Row, int) {
	row, size := relay.Row{}, 0
	if r.event.id.Valid {
		row, size = r.event.row()
	} else {
		row.Gone = true
		row.Event = &settle.Event{ID: r.eventID, Type: r.eventType, AggregateID: r.key, Topic: r.topic}
	}
	row.ID, row.MessageID, row.Attempts, row.ParkNo, row.Suspect = r.id, r.messageID, r.attempts, r.parkNo, r.suspect
	row.Together, row.Destination, row.Owed = r.together, r.topic, r.owed
	return row, size
}
