package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

// Restart implements govern.Restarter.
func (g *Governance) Restart(ctx context.Context, a govern.Act, from int64) (govern.Restart, error) {
	if a.Reason == "" {
		return govern.Restart{}, errors.New("restart relay: no reason is given")
	}
	var r govern.Restart
	err := g.act(ctx, a, func(d *deed) (err error) {
		r, err = g.restart(ctx, d, from)
		// Crash here: nothing has changed. After the commit all of it has, and
		// the next leader goes on from there.
		return err
	})
	if err != nil {
		return govern.Restart{}, fmt.Errorf("restart relay: %w", explain(err))
	}
	return r, nil
}

const (
	// A takeover waits, and so does a leader's last write, which is refused then.
	lockLeases = `SELECT count(*) FROM (SELECT 1 FROM t_outbox_lease FOR UPDATE) locked`

	fenceLeases = `UPDATE t_outbox_lease SET owner = $1, epoch = $2, clean = true, deaths = 0, taken_at = $3`

	// What is marked as sent in an adopted table, and not seen by the log from its
	// new position on, is no other relay's work. From there on all is read as a
	// log, also where ids begin again below those of the adoption.
	forgetForeign = `UPDATE settle_adoption SET foreign_id = $1, foreign_rows = 0, foreign_seen_at = NULL, high_id = least(high_id, $2::bigint)`

	highestOfAll = `SELECT greatest((SELECT max(epoch) FROM t_outbox_lease), (SELECT max(epoch) FROM t_outbox_checkpoint), (SELECT max(epoch) FROM settle_renewal WHERE scope = $1), 0)`
)

func (g *Governance) restart(ctx context.Context, d *deed, from int64) (govern.Restart, error) {
	var r govern.Restart
	for _, first := range []struct {
		query string
		args  []any
	}{{slowly, nil}, {makeLease, []any{0}}, {lockLeases, nil}, {keepRows, nil}} {
		if _, err := d.tx.Exec(ctx, first.query, first.args...); err != nil {
			return r, err
		}
	}
	lead, err := g.leaders(ctx, d.tx)
	if err != nil {
		return r, err
	}
	for _, l := range lead {
		return r, fmt.Errorf("%w: %s, until %s; end it, or wait until then", govern.ErrLeads, l.Owner, l.Expires.UTC().Format("15:04:05"))
	}
	st, err := readPosition(ctx, d.tx)
	if err != nil {
		return r, err
	}
	switch {
	case from == govern.FromEnd:
		from = st.MaxID + 1
	case from < 1 || from > st.MaxID+1:
		return r, fmt.Errorf("%w: it is %d, the table has given ids up to %d", govern.ErrNotGiven, from, st.MaxID)
	}
	r.From = from
	if err := d.tx.QueryRow(ctx, countAround, from-1, "").Scan(&r.Passed, &r.Sent); err != nil {
		return r, err
	}
	if err := moveBeside(ctx, d, &r); err != nil {
		return r, err
	}
	if err := d.tx.QueryRow(ctx, highestOfAll, relayScope).Scan(&r.Epoch); err != nil {
		return r, err
	}
	r.Epoch++
	if _, err := d.tx.Exec(ctx, fenceLeases, "restart by "+d.By, r.Epoch, d.now); err != nil {
		return r, err
	}
	if err := writePosition(ctx, d, st, r); err != nil {
		return r, err
	}
	if g.s.adopted != nil {
		if _, err := d.tx.Exec(ctx, forgetForeign, st.MaxID, from-1); err != nil {
			return r, err
		}
	}
	if g.s.adopted.sweepable() {
		if err := markPassed(ctx, d, r); err != nil {
			return r, err
		}
	}
	if _, err := d.tx.Exec(ctx, bumpControls); err != nil {
		return r, err
	}
	return r, d.audit(ctx, govern.ActionRestart, "from id "+strconv.FormatInt(from, 10))
}

const (
	// What was noted of ids of another life is not what became of those of now.
	dropNoted = `DELETE FROM t_outbox_projection q WHERE NOT EXISTS (SELECT 1 FROM t_outbox_parked p WHERE p.id = q.id)`

	noteSent = `INSERT INTO t_outbox_projection (id, status, attempts, next_at, cause, noted_at)
SELECT e.id, '` + projectedSent + `', 0, NULL, '', $2 FROM settle_outbox_row() e WHERE e.readable AND e.id < $1
AND NOT EXISTS (SELECT 1 FROM t_outbox_parked p WHERE p.id = e.id) AND NOT EXISTS (SELECT 1 FROM t_outbox_delayed t WHERE t.id = e.id)
AND NOT EXISTS (SELECT 1 FROM t_outbox_extra x WHERE x.id = e.id) AND NOT EXISTS (SELECT 1 FROM settle_skip k WHERE k.event_id = e.event_id)
AND NOT EXISTS (SELECT 1 FROM t_dead_letter l WHERE l.consumer_group = '' AND l.event_id = e.event_id AND l.outbox_id = e.id AND l.state IN ('OPEN', 'REPLAYING', 'DISCARDED'))
ON CONFLICT DO NOTHING`
)

// markPassed has the rows before the new position say in an adopted table that
// they are sent, as they count. One that went on saying that it waits would
// look like one that a person has set back, and be sent.
func markPassed(ctx context.Context, d *deed, r govern.Restart) error {
	if _, err := d.tx.Exec(ctx, dropNoted); err != nil {
		return err
	}
	_, err := d.tx.Exec(ctx, noteSent, r.From, d.now)
	return err
}

const (
	// One that is to be sent again, and whose id is another event's now, was sent
	// before.
	dropListed = `DELETE FROM t_outbox_extra x WHERE x.id >= $1 OR NOT EXISTS (SELECT 1 FROM settle_outbox_row() e
 WHERE e.id = x.id AND (x.reason <> 'resend' OR starts_with(x.message_id, e.event_id || '#')))`

	beside = `(SELECT id, event_id, event_type, destination, aggregate_id, message_id FROM t_outbox_parked
 UNION ALL SELECT id, event_id, '', destination, aggregate_id, '' FROM t_outbox_delayed) s`

	// What the relay reads anew is tried anew.
	closeLetters = `UPDATE t_dead_letter d SET state = 'REPLAYED', closed_at = $2, closed_by = $3 FROM settle_outbox_row() e
WHERE d.consumer_group = '' AND d.state IN ('OPEN', 'REPLAYING') AND e.event_id = d.event_id AND (e.id >= $1 OR e.id <> d.outbox_id)`

	listMoved = `INSERT INTO t_outbox_extra (id, message_id, reason, added_at)
SELECT e.id, s.message_id, 'moved', $2 FROM ` + beside + ` JOIN settle_outbox_row() e ON e.event_id = s.event_id WHERE e.id < $1 AND e.id <> s.id
ON CONFLICT DO NOTHING`

	openLost = `INSERT INTO t_dead_letter (service_side, consumer_group, event_id, destination, outbox_id, event_type, aggregate_id, biz_key,
 class, reason, attempts, state, blocking, opened_at, due_at, topic, record_key)
SELECT 'relay', '', s.event_id, s.destination, 0, s.event_type, s.aggregate_id, s.aggregate_id, $1, $2, 0, 'OPEN', false, $3, $4, s.destination, convert_to(s.aggregate_id, 'UTF8')
FROM ` + beside + ` WHERE NOT EXISTS (SELECT 1 FROM settle_outbox_row() e WHERE e.event_id = s.event_id)
ON CONFLICT (consumer_group, event_id, destination) DO UPDATE SET class = excluded.class, reason = excluded.reason, state = 'OPEN', outbox_id = 0,
 blocking = false, opened_at = excluded.opened_at, due_at = excluded.due_at, closed_at = NULL, closed_by = ''`

	dropOtherParked = `DELETE FROM t_outbox_parked s WHERE s.id >= $1 OR NOT EXISTS (SELECT 1 FROM settle_outbox_row() e WHERE e.id = s.id AND e.event_id = s.event_id)`

	dropOtherDelayed = `DELETE FROM t_outbox_delayed s WHERE s.id >= $1 OR NOT EXISTS (SELECT 1 FROM settle_outbox_row() e WHERE e.id = s.id AND e.event_id = s.event_id)`

	countKept = `SELECT (SELECT count(*) FROM t_outbox_parked) + (SELECT count(*) FROM t_outbox_delayed) + (SELECT count(*) FROM t_outbox_extra)`
)

// causeLost is what a dead letter says of an event that a restart has not found.
const causeLost = "it waited to be sent, and its row is not in the outbox that the relay was restarted on"

// moveBeside matches what waits beside the log with the table by event id: the
// same id may be another event's now.
func moveBeside(ctx context.Context, d *deed, r *govern.Restart) error {
	if _, err := d.tx.Exec(ctx, dropListed, r.From); err != nil {
		return err
	}
	if _, err := d.tx.Exec(ctx, closeLetters, r.From, d.now, d.By); err != nil {
		return err
	}
	tag, err := d.tx.Exec(ctx, openLost, string(settle.ClassRowDeleted), causeLost, d.now, d.now.Add(relayLetterDue))
	if err != nil {
		return err
	}
	r.Lost = tag.RowsAffected()
	if _, err := d.tx.Exec(ctx, listMoved, r.From, d.now); err != nil {
		return err
	}
	for _, drop := range []string{dropOtherParked, dropOtherDelayed} {
		if _, err := d.tx.Exec(ctx, drop, r.From); err != nil {
			return err
		}
	}
	return d.tx.QueryRow(ctx, countKept).Scan(&r.Kept)
}

const (
	dropGaps = `DELETE FROM t_outbox_gap`

	// A transaction that is open now may own a missing id below the new position:
	// should it commit, its row is late.
	addMissing = `INSERT INTO t_outbox_gap (first_id, last_id, recorded_at) SELECT first_id, last_id, $2 FROM
 (SELECT lag(id, 1, 0::bigint) OVER (ORDER BY id) + 1 AS first_id, id - 1 AS last_id FROM
  (SELECT id FROM settle_outbox_row() WHERE id > 0 AND id < $1 AND readable UNION ALL SELECT $1::bigint) ids) runs WHERE first_id <= last_id`

	// Where the broker had what those of another life speak of is no longer true
	// of the ids: they are, or will be, other events'.
	dropOtherLife = `DELETE FROM t_outbox_checkpoint c WHERE c.last_id > $1 OR EXISTS (SELECT 1 FROM json_array_elements(c.readers) r
 JOIN settle_outbox_row() e ON e.id = (r ->> 'cursor')::bigint WHERE e.event_id <> coalesce(r ->> 'cursor_event', e.event_id))`
)

const (
	// Also the lanes that have ended: those of the next generation begin where
	// they are.
	everyLane = `SELECT lane FROM t_outbox_lease UNION SELECT lane FROM v_outbox_lane ORDER BY lane`

	lowerBarrier = `UPDATE t_outbox_division SET barrier = least(barrier, $1) WHERE begun_at IS NULL`
)

// writePosition leaves what a leader would have left that has come up to there.
func writePosition(ctx context.Context, d *deed, st relay.State, r govern.Restart) error {
	if _, err := d.tx.Exec(ctx, dropGaps); err != nil {
		return err
	}
	if _, err := d.tx.Exec(ctx, addMissing, r.From, d.now); err != nil {
		return err
	}
	if _, err := d.tx.Exec(ctx, dropOtherLife, st.MaxID); err != nil {
		return err
	}
	at := relay.Reader{Cursor: r.From - 1}
	err := d.tx.QueryRow(ctx, eventAt, at.Cursor).Scan(&at.CursorEvent)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	var lane int
	var lanes []int
	if err := each(ctx, d.tx, []any{&lane}, func() { lanes = append(lanes, lane) }, everyLane); err != nil {
		return err
	}
	for _, lane := range lanes {
		_, err := d.tx.Exec(ctx, addCheckpoint, lane, r.Epoch, st.Checkpoint.Number+1, outboxlog.PackReaders([]relay.Reader{at}), nil, nil, nil, d.now)
		if err != nil {
			return err
		}
	}
	_, err = d.tx.Exec(ctx, lowerBarrier, at.Cursor)
	return err
}
