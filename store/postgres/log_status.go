package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/migrate"
)

// statusSweep are the statements that look, in an adopted table, for rows that
// wait although the relay has passed them, and for the traces of another relay.
type statusSweep struct{ strays, foreign string }

const (
	// A stray is at or below the cursor that serves its topic, not open there,
	// in no side table, and nothing that a person or the relay has given up.
	// sent is whether the relay itself has sent it, tried whether it was set back
	// by a program that has tried to send it.
	findStrays = `WITH reader AS MATERIALIZED (SELECT destination, cursor FROM v_outbox_reader),
 unseen AS MATERIALIZED (SELECT destination, first_id, last_id FROM v_outbox_open),
 waiting AS MATERIALIZED (SELECT e.id FROM %[1]s e WHERE e.status IN (%[2]s) AND e.id > $1 AND e.id <= (SELECT max(cursor) FROM reader) ORDER BY e.id LIMIT $2),
 loose AS MATERIALIZED (SELECT w.id FROM waiting w
  WHERE NOT EXISTS (SELECT 1 FROM t_outbox_parked p WHERE p.id = w.id) AND NOT EXISTS (SELECT 1 FROM t_outbox_delayed t WHERE t.id = w.id)
  AND NOT EXISTS (SELECT 1 FROM t_outbox_extra x WHERE x.id = w.id) AND NOT EXISTS (SELECT 1 FROM t_outbox_projection q WHERE q.id = w.id)
  AND w.id > coalesce((SELECT g.last_id FROM t_outbox_gap g WHERE g.first_id <= w.id ORDER BY g.first_id DESC LIMIT 1), 0) ORDER BY w.id LIMIT $3)
SELECT n.rows, n.last, coalesce(f.id, 0), coalesce(f.event_id, ''), coalesce(f.sent, false), coalesce(f.given_up, false), coalesce(f.tried, false)
FROM (SELECT count(*) AS rows, coalesce(max(id), 0) AS last FROM waiting) n LEFT JOIN LATERAL (
SELECT e.id, e.event_id, e.id > a.high_id OR EXISTS (SELECT 1 FROM v_outbox_sent s WHERE s.id = e.id AND s.first_id <= e.id AND s.last_id >= e.id) AS sent,
 EXISTS (SELECT 1 FROM t_dead_letter d WHERE d.consumer_group = '' AND d.event_id = e.event_id AND d.outbox_id = e.id AND d.state IN ('OPEN', 'REPLAYING', 'DISCARDED'))
  OR EXISTS (SELECT 1 FROM settle_skip k WHERE k.event_id = e.event_id) AS given_up, %[3]s AS tried
FROM loose l CROSS JOIN settle_adoption a JOIN settle_outbox_row() e ON e.id = l.id JOIN %[1]s t ON t.id = l.id
LEFT JOIN reader m ON m.destination = '' LEFT JOIN reader o ON o.destination = e.topic AND o.destination <> ''
WHERE e.id <= coalesce(o.cursor, m.cursor, 0)
AND NOT EXISTS (SELECT 1 FROM unseen u WHERE u.destination = coalesce(o.destination, m.destination) AND e.id BETWEEN u.first_id AND u.last_id)) f ON true
ORDER BY 3`

	// Rows that our log has not seen, and that are sent or in somebody's hand. A
	// lane has not seen what another, or one that has ended, has sent: of several
	// all is seen up to the cursor of the foremost, and of those before them too.
	findForeign = `WITH seen AS MATERIALIZED (SELECT greatest($1::bigint, max((r.value ->> 'cursor')::bigint)) AS id FROM t_outbox_checkpoint c, json_array_elements(c.readers) r
  WHERE c.lane < (SELECT min(lane) FROM v_outbox_lane)),
 alone AS MATERIALIZED (SELECT s.id FROM seen s WHERE (SELECT count(*) FROM v_outbox_lane) = 1),
 runs AS MATERIALIZED ((SELECT first_id, last_id FROM t_outbox_gap, alone WHERE last_id > id ORDER BY first_id LIMIT 1000)
 UNION ALL (SELECT first_id, last_id FROM v_outbox_open, alone WHERE last_id > id LIMIT 1000)
 UNION ALL SELECT max(cursor) + 1, 9223372036854775807 FROM v_outbox_lane_reader)
UPDATE settle_adoption SET foreign_id = f.last, foreign_rows = foreign_rows + f.rows, foreign_seen_at = $2
FROM (SELECT count(*) AS rows, max(e.id) AS last FROM seen s CROSS JOIN runs r CROSS JOIN LATERAL
 (SELECT e.id FROM %[1]s e WHERE e.id > s.id AND e.id BETWEEN r.first_id AND r.last_id AND e.status IN (%[2]s) ORDER BY e.id LIMIT 1000) e) f WHERE f.rows > 0`

	foreignState = `SELECT foreign_id, foreign_seen_at > $1 FROM settle_adoption`

	listStray = `INSERT INTO t_outbox_extra (id, reason, added_at) SELECT id, 'late', $2 FROM unnest($1::bigint[]) id ON CONFLICT DO NOTHING`

	// A row that another relay has taken meanwhile is not sent by ours.
	dropTaken = `DELETE FROM t_outbox_extra x WHERE x.message_id = '' AND x.id IN (SELECT id FROM t_outbox_extra ORDER BY id LIMIT $1)
AND EXISTS (SELECT 1 FROM settle_outbox_row() e WHERE e.id = x.id AND NOT e.readable)`
)

const (
	// statusLook is how many rows that wait one sweep looks at.
	statusLook = 20_000
	// foreignLately is for how long another relay counts as running after its
	// last trace.
	foreignLately = 15 * time.Minute
)

func newStatusSweep(a *adoption) statusSweep {
	waits := a.words(migrate.StatusPending, migrate.StatusRetry)
	return statusSweep{
		strays:  fmt.Sprintf(findStrays, a.table(), waits, a.tried()),
		foreign: fmt.Sprintf(findForeign, a.table(), a.words(migrate.StatusSent, migrate.StatusInFlight)),
	}
}

// stray is a row that waits although the relay has passed it.
type stray struct {
	id      int64
	eventID string
	// sent is whether the relay has sent it, given up whether somebody has
	// decided that it is not to be, tried whether it was set back by a program
	// that has tried to send it.
	sent, givenUp, tried bool
}

// tried returns the expression that tells a row t which a program has saved
// after it could not send it: an attempt is counted, and the next one lies
// behind the change. A person who sets a status back leaves one of them alone.
func (a *adoption) tried() string {
	if !a.Has("retry_count") || !a.Has("next_retry_time") || a.Columns["next_retry_time"] != a.Columns["updated_at"] {
		return "false"
	}
	return "t.retry_count > 0 AND t.next_retry_time > t.updated_at"
}

// sweepStatus lists what waits below the cursor. What the relay has not sent is
// late. What it has sent was set back by a person, who asks for it once more, or
// by another relay's program that writes back what it has read earlier: nothing
// is sent again while one of those is at work, and never what it has saved after
// it could not send it.
func (l *Log) sweepStatus(ctx context.Context, tx pgx.Tx, now time.Time, limit int) (late []int64, again []string, err error) {
	var from int64
	var foreign *bool
	if err := tx.QueryRow(ctx, foreignState, now.Add(-foreignLately)).Scan(&from, &foreign); err != nil {
		return nil, nil, err
	}
	tag, err := tx.Exec(ctx, l.s.status.foreign, from, now)
	if err != nil {
		return nil, nil, err
	}
	busy := tag.RowsAffected() > 0 || foreign != nil && *foreign
	// Without an index the whole table would be read every time.
	if _, err := tx.Exec(ctx, dropTaken, limit); err != nil || !l.s.adopted.StatusIndex {
		return nil, nil, err
	}
	var s stray
	looked, last, found := 0, int64(0), 0
	err = each(ctx, tx, []any{&looked, &last, &s.id, &s.eventID, &s.sent, &s.givenUp, &s.tried}, func() {
		switch {
		case s.id == 0 || s.givenUp || s.sent && (busy || s.tried):
		case s.sent:
			again = append(again, s.eventID)
		default:
			late = append(late, s.id)
		}
		found++
	}, l.s.status.strays, l.statusFrom, statusLook, limit)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case found >= limit:
		l.statusFrom = s.id
	case looked >= statusLook:
		l.statusFrom = last
	default:
		l.statusFrom = 0
	}
	if len(late) == 0 {
		return nil, again, nil
	}
	_, err = tx.Exec(ctx, listStray, late, now)
	return late, again, err
}

// resend asks for events whose status was set back, as a person would.
func (l *Log) resend(ctx context.Context, eventIDs []string) error {
	if len(eventIDs) == 0 {
		return nil
	}
	why := "its status in " + l.s.adopted.plainName() + " was set back to " + strings.Join(l.s.adopted.Status[migrate.StatusPending], ", ")
	_, err := l.s.Governance().Resend(ctx, govern.Act{By: statusActor, Reason: why}, eventIDs...)
	return err
}

// statusActor is whom the audit names for what was asked for in the table itself.
const statusActor = "status column"
