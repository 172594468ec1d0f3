package postgres

import (
	"math"

	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

// What a lane of several reads. With one lane nothing of this is asked: the
// plans and costs are those of the statements beside which these stand.
const (
	// The key decides, and is hashed once for each row; what stands behind it is
	// not read, and not sent, of another lane's row.
	pollMarked = `(SELECT u.*, settle_lane(u.id, u.aggregate_id, $8) <> $9 AS elsewhere FROM ` + pollRows + ` OFFSET 0) v`
	pollOwn    = `SELECT NULL, NULL, NULL, elsewhere, id, event_id, CASE WHEN NOT elsewhere THEN event_type END, CASE WHEN NOT elsewhere THEN aggregate_type END,
 CASE WHEN NOT elsewhere THEN aggregate_id END, CASE WHEN NOT elsewhere THEN aggregate_seq END, CASE WHEN NOT elsewhere THEN biz_key END,
 CASE WHEN NOT elsewhere THEN trace_id END, CASE WHEN NOT elsewhere THEN causation_id END, CASE WHEN NOT elsewhere THEN supersedes END,
 CASE WHEN NOT elsewhere THEN topic END, CASE WHEN NOT elsewhere THEN version END, CASE WHEN NOT elsewhere THEN content_type END,
 CASE WHEN NOT elsewhere THEN occurred_at END, CASE WHEN NOT elsewhere THEN appended_at END, CASE WHEN NOT elsewhere THEN not_before END,
 CASE WHEN NOT elsewhere THEN headers END, CASE WHEN NOT elsewhere THEN payload END FROM `

	pollLane        = pollFirst + pollOwn + pollMarked
	pollLaneWeighed = pollFirst + pollOwn + `(SELECT v.*, coalesce(sum(octet_length(v.payload)) FILTER (WHERE NOT v.elsewhere)
 OVER (ORDER BY v.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before FROM ` + pollMarked + `) w WHERE w.before <= $10`

	sideStateOfLane = `SELECT EXISTS (SELECT 1 FROM t_outbox_extra x LEFT JOIN settle_outbox_row() e ON e.id = x.id
 WHERE CASE WHEN e.id IS NULL THEN 0 ELSE settle_lane(e.id, e.aggregate_id, $1) END = $2),
 (SELECT min(due_at) FROM t_outbox_delayed WHERE settle_lane(id, aggregate_id, $1) = $2),
 greatest(pg_sequence_last_value(pg_get_serial_sequence(settle_outbox_table()::text, 'id')::regclass), (SELECT max(id) FROM settle_outbox_row()), 0)`

	parkedKeysOfLane = `SELECT k.destination, k.aggregate_id, k.count, p.next_at, p.dead
FROM (SELECT destination, aggregate_id, count(*) AS count, min(park_no) AS head FROM t_outbox_parked
 WHERE settle_lane(0, aggregate_id, $1) = $2 GROUP BY destination, aggregate_id) k
JOIN t_outbox_parked p ON p.park_no = k.head ORDER BY k.destination COLLATE "C", k.aggregate_id COLLATE "C"`

	sideDelayedOfLane = `SELECT t.id, t.event_id, '', t.aggregate_id, t.destination, '', 0, 0::bigint, false, false, t.due_at, t.owed, ` +
		rowColumns + ` FROM t_outbox_delayed t LEFT JOIN settle_outbox_row() e ON e.id = t.id
WHERE t.due_at <= $1 AND NOT coalesce(t.owed, ARRAY[t.destination]) <@ $2::text[] AND settle_lane(t.id, t.aggregate_id, $4) = $5 ORDER BY t.due_at, t.id LIMIT $3`

	nextDelayedOfLane = `SELECT min(due_at) FROM t_outbox_delayed WHERE due_at > $1 AND NOT coalesce(owed, ARRAY[destination]) <@ $2::text[] AND settle_lane(id, aggregate_id, $3) = $4`

	// Whose row is gone is the first lane's to find.
	sideExtraOfLane = `SELECT x.id, '', '', '', '', x.message_id, 0, 0::bigint, false, false, NULL::timestamptz, x.owed, ` +
		rowColumns + ` FROM t_outbox_extra x LEFT JOIN settle_outbox_row() e ON e.id = x.id
WHERE x.id > $3 AND NOT coalesce(x.owed, ARRAY[coalesce(e.topic, '')]) <@ $1::text[] AND (e.readable OR e.id IS NULL OR x.message_id <> '')
AND CASE WHEN e.id IS NULL THEN 0 ELSE settle_lane(e.id, e.aggregate_id, $4) END = $5 ORDER BY x.id LIMIT $2`

	// Each lane has its own holes, and what one has given up another may still
	// await, or have sent. The owner of the key decides: what it is still to come
	// to stays as it is, what it has dealt with is no hole any more, and the rest
	// is late. Where events may go to several destinations, all is that was passed:
	// one of them may have come to a row when others had given its id up.
	listLateOfLane = `WITH lists AS MATERIALIZED (SELECT EXISTS (SELECT 1 FROM v_outbox_lane l CROSS JOIN LATERAL
  (SELECT readers FROM t_outbox_checkpoint c WHERE c.lane = l.lane ORDER BY c.epoch DESC, c.number DESC LIMIT 1) c
  WHERE l.lane_index = $6 AND c.readers::text LIKE '%"also":true%') AS used),
 looked AS MATERIALIZED (SELECT first_id, last_id FROM t_outbox_gap WHERE first_id > $2 ORDER BY first_id LIMIT $4),
 own AS MATERIALIZED (SELECT e.id, e.topic, e.event_id, r.first_id FROM looked r CROSS JOIN LATERAL
  (SELECT id, topic, event_id FROM settle_outbox_row() WHERE id BETWEEN r.first_id AND r.last_id AND readable AND settle_lane(id, aggregate_id, $5) = $6 ORDER BY id LIMIT $3) e ORDER BY e.id LIMIT $3),
 reader AS MATERIALIZED (SELECT destination, cursor FROM v_outbox_lane_reader WHERE lane_index = $6),
 late AS MATERIALIZED (SELECT w.id, w.first_id, w.event_id FROM own w LEFT JOIN reader m ON m.destination = '' LEFT JOIN reader o ON o.destination = w.topic AND o.destination <> ''
  WHERE w.id <= coalesce(o.cursor, m.cursor, 0) AND NOT EXISTS (SELECT 1 FROM v_outbox_lane_open u
   WHERE u.lane_index = $6 AND u.destination = coalesce(o.destination, m.destination) AND w.id BETWEEN u.first_id AND u.last_id)),
 listed AS (INSERT INTO t_outbox_extra (id, reason, added_at) SELECT DISTINCT w.id, 'late', $1::timestamptz FROM (SELECT w.id FROM late w
  WHERE NOT EXISTS (SELECT 1 FROM v_outbox_sent s WHERE s.id = w.id AND s.first_id <= w.id AND s.last_id >= w.id)
  AND NOT EXISTS (SELECT 1 FROM t_outbox_parked p WHERE p.id = w.id OFFSET 0) AND NOT EXISTS (SELECT 1 FROM t_outbox_delayed t WHERE t.id = w.id OFFSET 0)
  AND NOT EXISTS (SELECT 1 FROM settle_skip k WHERE k.event_id = w.event_id OFFSET 0)
  AND NOT EXISTS (SELECT 1 FROM t_dead_letter d WHERE d.consumer_group = '' AND d.event_id = w.event_id AND d.outbox_id = w.id OFFSET 0)
  UNION ALL SELECT w.id FROM late w, lists WHERE lists.used) w
  ON CONFLICT DO NOTHING RETURNING id),
 number AS (SELECT count(*) AS n FROM listed)
SELECT number.n, (SELECT count(*) FROM looked), (SELECT coalesce(max(first_id), 0) FROM looked), coalesce(array_agg(late.first_id) FILTER (WHERE late.id IS NOT NULL), '{}'),
 coalesce(array_agg(late.id) FILTER (WHERE late.id IS NOT NULL), '{}')
FROM number LEFT JOIN late ON true GROUP BY number.n`
)

// ofLane returns one with its arguments, or where there are several lanes the
// other, whose arguments end with their number and the index of this one.
func (l *Log) ofLane(one, several string, args ...any) (string, []any) {
	lane := l.lane()
	if lane.Of == 1 {
		return one, args
	}
	return several, append(args, lane.Of, lane.Index)
}

// pollOfLane is the page of a lane of several. Rows of the others cost little:
// there may be so many of them that about a page of its own is left.
func pollOfLane(q relay.PollQuery, lane relay.Lane, room *outboxlog.Budget, small bool) (string, []any) {
	upTo := q.UpTo
	if upTo == 0 {
		upTo = math.MaxInt64
	}
	room.Others = q.MaxRows * lane.Of
	single, first, last := splitHoles(outboxlog.Below(q.Holes, q.After))
	args := []any{q.After, upTo, room.Limit(), lane.Number, single, first, last, lane.Of, lane.Index}
	if small {
		return pollLane, args
	}
	return pollLaneWeighed, append(args, q.MaxBytes)
}
