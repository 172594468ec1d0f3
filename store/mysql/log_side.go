package mysql

import (
	"context"
	"fmt"
	"strings"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

// What stands before rowColumns: id, event id, type, key, topic and message id
// by the side table, attempts, park number, suspect, dead, due time, how many
// were tried together, to whom it is owed. %s is for destinations that are held, and for the lane.
const (
	sideParked = `SELECT p.id, p.event_id, p.event_type, p.aggregate_id, p.destination, p.message_id, p.attempts, p.park_no, p.suspect, p.dead, CAST(NULL AS DATETIME(6)), p.tried_together, '', ` +
		rowColumns + ` FROM t_outbox_parked p LEFT JOIN t_outbox_event e ON e.id = p.id
WHERE p.destination = ? AND p.aggregate_id = ? ORDER BY p.park_no LIMIT ?`

	sideDelayed = `SELECT t.id, t.event_id, '', t.aggregate_id, t.destination, '', 0, 0, 0, 0, t.due_at, 0, coalesce(t.owed, ''), ` +
		rowColumns + ` FROM t_outbox_delayed t LEFT JOIN t_outbox_event e ON e.id = t.id
WHERE t.due_at <= ?%s ORDER BY t.due_at, t.id LIMIT ?`

	sideExtra = `SELECT x.id, '', '', '', '', x.message_id, 0, 0, 0, 0, CAST(NULL AS DATETIME(6)), 0, coalesce(x.owed, ''), ` +
		rowColumns + ` FROM t_outbox_extra x FORCE INDEX (PRIMARY) LEFT JOIN t_outbox_event e ON e.id = x.id
WHERE x.id > ?%s ORDER BY x.id LIMIT ?`

	nextDelayed = `SELECT min(t.due_at) FROM t_outbox_delayed t WHERE t.due_at > ?%s`
)

// Side implements relay.Store. Of a parked key it returns nothing from its
// first dead row on: those wait for a person.
func (l *Log) Side(ctx context.Context, q relay.SideQuery) (relay.SidePage, error) {
	p, err := l.side(ctx, q)
	if err != nil {
		return relay.SidePage{}, fmt.Errorf("read side table: %w", explain(err))
	}
	return p, nil
}

func (l *Log) side(ctx context.Context, q relay.SideQuery) (p relay.SidePage, err error) {
	switch q.Side {
	case relay.SideParked:
		return p, l.readSide(ctx, q, &p, sideParked, q.Destination, q.Key)
	case relay.SideDelayed:
		// None but this leader delays a row between the two statements.
		held, names := notHeld("t.destination", "t.owed", q.Held)
		held += l.ownRows("t.id", "t.aggregate_id")
		args := append([]any{q.Now.UTC()}, names...)
		if err := l.readSide(ctx, q, &p, fmt.Sprintf(sideDelayed, held), args...); err != nil || !p.Next.IsZero() {
			return p, err
		}
		var next timeColumn
		err = l.s.own.QueryRowContext(ctx, fmt.Sprintf(nextDelayed, held), args...).Scan(&next)
		p.Next = next.Time
		return p, err
	default:
		held, names := notHeld("coalesce(e.topic, '')", "x.owed", q.Held)
		return p, l.readSide(ctx, q, &p, fmt.Sprintf(sideExtra, held+l.ownRows("e.id", "e.aggregate_id")), append([]any{q.After}, names...)...)
	}
}

// notHeld is the condition that a column names none of the destinations, or that
// a row is owed to more than those.
func notHeld(column, owed string, held []string) (condition string, names []any) {
	if len(held) == 0 {
		return "", nil
	}
	for _, name := range held {
		names = append(names, name)
	}
	for _, name := range held {
		names = append(names, outboxlog.PackOwed([]string{name}))
	}
	return " AND CASE WHEN " + owed + " IS NULL THEN " + column + " NOT IN (?" + strings.Repeat(",?", len(held)-1) + ") ELSE JSON_LENGTH(" + owed + ") > " +
		"JSON_CONTAINS(" + owed + ", ?)" + strings.Repeat(" + JSON_CONTAINS("+owed+", ?)", len(held)-1) + " END", names
}

func (l *Log) readSide(ctx context.Context, q relay.SideQuery, p *relay.SidePage, query string, args ...any) error {
	room := l.room(q.MaxRows, q.MaxBytes)
	err := l.readSideRows(ctx, l.s.own, p, &room, query, append(args, room.Limit()))
	l.took(&room, q.MaxRows, p.More, err)
	return err
}

func (l *Log) readSideRows(ctx context.Context, db querier, p *relay.SidePage, room interface{ Takes(size int) bool }, query string, args []any) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	v := sideRow{event: eventRow{of: l.s.adopted.decided()}}
	into := v.into()
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if v.dead {
			return nil
		}
		row, size, err := v.row()
		if err != nil {
			return err
		}
		if !room.Takes(size) {
			p.More, p.Next = true, v.due.Time
			return nil
		}
		p.Rows = append(p.Rows, row)
	}
	return rows.Err()
}

// sideRow is a row of a side table and its event.
type sideRow struct {
	id, parkNo                                int64
	eventID, eventType, key, topic, messageID string
	attempts, together                        int
	suspect, dead                             bool
	due                                       timeColumn
	owed                                      string
	event                                     eventRow
}

func (r *sideRow) into() []any {
	return append([]any{&r.id, &r.eventID, &r.eventType, &r.key, &r.topic, &r.messageID, &r.attempts, &r.parkNo, &r.suspect, &r.dead, &r.due, &r.together, &r.owed}, r.event.into()...)
}

func (r *sideRow) row() (relay.Row, int, error) {
	row, size := relay.Row{}, 0
	if r.event.id.set {
		row, size = r.event.row()
	} else {
		row.Gone = true
		row.Event = &settle.Event{ID: r.eventID, Type: r.eventType, AggregateID: r.key, Topic: r.topic}
	}
	row.ID, row.MessageID, row.Attempts, row.ParkNo, row.Suspect, row.Together = r.id, r.messageID, r.attempts, r.parkNo, r.suspect, r.together
	row.Destination = r.topic
	var err error
	row.Owed, err = outboxlog.UnpackOwed(r.owed)
	return row, size, err
}
