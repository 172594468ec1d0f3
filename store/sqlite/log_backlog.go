package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"

	"github.com/settlemq/settle/relay"
)

var _ relay.Gauge = (*Log)(nil)

// Rows above the cursor that serves their topic, those that readers have open,
// late ones and those that became due. The first is bounded by what it looks
// at: of a topic that has fallen far behind most rows may be another's.
const (
	backlogAbove = `WITH reader AS MATERIALIZED (SELECT destination, cursor FROM v_outbox_reader)
SELECT count(*), coalesce(sum(e.id > coalesce(o.cursor, m.cursor, 0)), 0), min(CASE WHEN e.id > coalesce(o.cursor, m.cursor, 0) THEN e.appended_at END)
FROM (SELECT id, topic, appended_at FROM t_outbox_event WHERE id > coalesce((SELECT min(cursor) FROM reader), 0) ORDER BY id LIMIT ?1) e
LEFT JOIN reader m ON m.destination = '' LEFT JOIN reader o ON o.destination = e.topic`
	backlogOpen = `SELECT count(*), count(*), min(appended_at)
FROM (SELECT e.appended_at FROM v_outbox_reader r, json_each(r.open) h JOIN t_outbox_event e ON e.id = h.value LIMIT ?1)`
	backlogLate = `SELECT count(*), count(*), min(appended_at)
FROM (SELECT e.appended_at FROM t_outbox_extra x JOIN t_outbox_event e ON e.id = x.id LIMIT ?1)`
	backlogDue = `SELECT count(*), count(*), min(due_at)
FROM (SELECT d.due_at FROM t_outbox_delayed d JOIN t_outbox_event e ON e.id = d.id WHERE d.due_at <= ?2 ORDER BY d.due_at LIMIT ?1)`
	backlogParked = `SELECT count(*), count(*), min(appended_at)
FROM (SELECT e.appended_at FROM t_outbox_parked p JOIN t_outbox_event e ON e.id = p.id ORDER BY p.park_no LIMIT ?1)`
)

// Backlog implements relay.Gauge. A row that waited for its time counts from
// when that came.
func (l *Log) Backlog(ctx context.Context, limit int) (relay.Backlog, error) {
	var b relay.Backlog
	now := l.s.now().UnixMicro()
	err := l.s.read(ctx, func(c *conn) error {
		for _, q := range []struct {
			query string
			args  []driver.Value
			into  *int
		}{
			{backlogAbove, []driver.Value{int64(limit)}, &b.Pending},
			{backlogOpen, []driver.Value{int64(limit)}, &b.Pending},
			{backlogLate, []driver.Value{int64(limit)}, &b.Pending},
			{backlogDue, []driver.Value{int64(limit), now}, &b.Pending},
			{backlogParked, []driver.Value{int64(limit)}, &b.Parked},
		} {
			if err := c.row(q.query, args(q.args...), func(v []driver.Value) { count(&b, q.into, v, limit) }); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return relay.Backlog{}, fmt.Errorf("count backlog: %w", err)
	}
	return b, nil
}

// count adds how many rows were looked at, how many of them count, and when
// the first of these was appended.
func count(b *relay.Backlog, into *int, v []driver.Value, limit int) {
	b.More = b.More || int(integer(v[0])) >= limit
	*into += int(integer(v[1]))
	if oldest := instant(v[2]); !oldest.IsZero() && (b.Oldest.IsZero() || oldest.Before(b.Oldest)) {
		b.Oldest = oldest
	}
}
