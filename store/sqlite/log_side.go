package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

// sideColumns stand before rowColumns: id, event id, type, key, topic and
// message id by the side table, attempts, park number, suspect, dead, due time,
// how many were tried together, to whom it is owed.
const (
	sideParked = `SELECT p.id, p.event_id, p.event_type, p.aggregate_id, p.destination, p.message_id, p.attempts, p.park_no, p.suspect, p.dead, NULL, p.tried_together, NULL, ` +
		rowColumns + ` FROM t_outbox_parked p LEFT JOIN t_outbox_event e ON e.id = p.id
WHERE p.destination = ? AND p.aggregate_id = ? ORDER BY p.park_no LIMIT ?`

	sideDelayed = `SELECT t.id, t.event_id, '', t.aggregate_id, t.destination, '', 0, 0, 0, 0, t.due_at, 0, t.owed, ` +
		rowColumns + ` FROM t_outbox_delayed t LEFT JOIN t_outbox_event e ON e.id = t.id
WHERE t.due_at <= ?1 AND CASE WHEN t.owed IS NULL THEN t.destination NOT IN (SELECT value FROM json_each(?2)) ELSE ` + owedToOthers + ` END ORDER BY t.due_at, t.id LIMIT ?3`

	sideExtra = `SELECT x.id, '', '', '', '', x.message_id, 0, 0, 0, 0, NULL, 0, x.owed, ` +
		rowColumns + ` FROM t_outbox_extra x LEFT JOIN t_outbox_event e ON e.id = x.id
WHERE x.id > ?1 AND CASE WHEN x.owed IS NULL THEN coalesce(e.topic, '') NOT IN (SELECT value FROM json_each(?2)) ELSE ` + owedToOthers + ` END ORDER BY x.id LIMIT ?3`

	nextDelayed = `SELECT min(due_at) FROM t_outbox_delayed
WHERE due_at > ?1 AND CASE WHEN owed IS NULL THEN destination NOT IN (SELECT value FROM json_each(?2)) ELSE ` + owedToOthers + ` END`

	// owedToOthers is that one of those that a row is owed to is not held.
	owedToOthers = `EXISTS (SELECT 1 FROM json_each(owed) o WHERE o.value NOT IN (SELECT value FROM json_each(?2)))`
)

const sideWidth = 13

// Side implements relay.Store. Of a parked key it returns nothing from its
// first dead row on: those wait for a person.
func (l *Log) Side(ctx context.Context, q relay.SideQuery) (relay.SidePage, error) {
	var p relay.SidePage
	err := l.s.read(ctx, func(c *conn) error {
		limit := int64(q.MaxRows) + 1
		switch q.Side {
		case relay.SideParked:
			return readSide(c, sideParked, args(q.Destination, q.Key, limit), q, &p)
		case relay.SideDelayed:
			if err := readSide(c, sideDelayed, args(q.Now.UnixMicro(), list(q.Held), limit), q, &p); err != nil || !p.Next.IsZero() {
				return err
			}
			return c.row(nextDelayed, args(q.Now.UnixMicro(), list(q.Held)), func(v []driver.Value) { p.Next = instant(v[0]) })
		default:
			return readSide(c, sideExtra, args(q.After, list(q.Held), limit), q, &p)
		}
	})
	if err != nil {
		return relay.SidePage{}, fmt.Errorf("read side table: %w", err)
	}
	return p, nil
}

func readSide(c *conn, query string, a []driver.NamedValue, q relay.SideQuery, p *relay.SidePage) error {
	room := outboxlog.Budget{Rows: q.MaxRows, Bytes: q.MaxBytes}
	var broken error
	err := c.each(query, a, func(v []driver.Value) bool {
		if integer(v[9]) == 1 {
			return false
		}
		row, size, err := readSideRow(v)
		if broken = err; err != nil {
			return false
		}
		if !room.Takes(size) {
			p.More, p.Next = true, instant(v[10])
			return false
		}
		p.Rows = append(p.Rows, row)
		return true
	})
	return errors.Join(err, broken)
}

func readSideRow(v []driver.Value) (relay.Row, int, error) {
	row, size := relay.Row{}, 0
	if v[sideWidth] == nil {
		row.Gone = true
		row.Event = &settle.Event{ID: textOf(v[1]), Type: textOf(v[2]), AggregateID: textOf(v[3]), Topic: textOf(v[4])}
	} else {
		row, size = readRow(v[sideWidth : sideWidth+rowWidth])
	}
	row.ID, row.Destination = integer(v[0]), textOf(v[4])
	row.MessageID, row.Attempts, row.ParkNo, row.Suspect = textOf(v[5]), int(integer(v[6])), integer(v[7]), integer(v[8]) == 1
	row.Together = int(integer(v[11]))
	var err error
	row.Owed, err = outboxlog.UnpackOwed(textOf(v[12]))
	return row, size, err
}
