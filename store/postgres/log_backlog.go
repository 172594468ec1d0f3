package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/relay"
)

var _ relay.Gauge = (*Log)(nil)

// backlog is one statement, so one state of the schema: rows above the cursor
// that serves their topic, those that readers have open, late ones, those that
// became due, and parked ones. Each arm tells how many it has looked at, how
// many of them count, and since when. The first is bounded by what it looks at:
// of a topic that has fallen far behind most rows may be another's.
const backlog = `WITH reader AS MATERIALIZED (SELECT lane_index, lanes, destination, cursor FROM v_outbox_lane_reader)
SELECT false, count(*), count(*) FILTER (WHERE e.id > coalesce(o.cursor, m.cursor, 0)), min(e.appended_at) FILTER (WHERE e.id > coalesce(o.cursor, m.cursor, 0))
FROM (SELECT id, aggregate_id, topic, appended_at FROM settle_outbox_row() WHERE readable AND id > coalesce((SELECT min(cursor) FROM reader), 0) ORDER BY id LIMIT $1) e
LEFT JOIN reader m ON m.destination = '' AND m.lane_index = settle_lane(e.id, e.aggregate_id, m.lanes)
LEFT JOIN reader o ON o.destination = e.topic AND o.destination <> '' AND o.lane_index = settle_lane(e.id, e.aggregate_id, o.lanes)
UNION ALL
SELECT false, count(*), count(*), min(appended_at)
FROM (SELECT e.appended_at FROM v_outbox_lane_open o JOIN settle_outbox_row() e ON e.id BETWEEN o.first_id AND o.last_id AND e.readable AND o.lane_index = settle_lane(e.id, e.aggregate_id, o.lanes) LIMIT $1) w
UNION ALL
SELECT false, count(*), count(*), min(appended_at)
FROM (SELECT e.appended_at FROM t_outbox_extra x JOIN settle_outbox_row() e ON e.id = x.id LIMIT $1) w
UNION ALL
SELECT false, count(*), count(*), min(due_at)
FROM (SELECT d.due_at FROM t_outbox_delayed d JOIN settle_outbox_row() e ON e.id = d.id WHERE d.due_at <= $2 ORDER BY d.due_at LIMIT $1) w
UNION ALL
SELECT true, count(*), count(*), min(appended_at)
FROM (SELECT e.appended_at FROM t_outbox_parked p JOIN settle_outbox_row() e ON e.id = p.id ORDER BY p.park_no LIMIT $1) w`

// Backlog implements relay.Gauge. A row that waited for its time counts from
// when that came.
func (l *Log) Backlog(ctx context.Context, limit int) (relay.Backlog, error) {
	var b relay.Backlog
	rows, err := l.s.reading.Query(ctx, backlog, limit, l.s.now().UTC())
	if err != nil {
		return b, fmt.Errorf("count backlog: %w", explain(err))
	}
	var parked bool
	var looked, found int
	var oldest *time.Time
	_, err = pgx.ForEachRow(rows, []any{&parked, &looked, &found, &oldest}, func() error {
		b.More = b.More || looked >= limit
		if parked {
			b.Parked += found
		} else {
			b.Pending += found
		}
		if oldest != nil && (b.Oldest.IsZero() || oldest.Before(b.Oldest)) {
			b.Oldest = *oldest
		}
		return nil
	})
	if err != nil {
		return relay.Backlog{}, fmt.Errorf("count backlog: %w", explain(err))
	}
	return b, nil
}
