package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

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
		return govern.Restart{}, fmt.Errorf("restart relay: %w", err)
	}
	return r, nil
}

const (
	// A takeover waits, and so does a leader's last write, which is refused then.
	lockLeases = `SELECT lane FROM t_outbox_lease ORDER BY lane FOR UPDATE`

	fenceLeases = `UPDATE t_outbox_lease SET owner = ?, epoch = ?, clean = true, deaths = 0, taken_at = ?`

	// What is marked as sent in an adopted table, and not seen by the log from its
	// new position on, is no other relay's work. From there on all is read as a
	// log, also where ids begin again below those of the adoption.
	forgetForeign = `UPDATE settle_adoption SET foreign_id = ?, foreign_rows = 0, foreign_seen_at = NULL, high_id = least(high_id, ?)`

	highestOfAll = `SELECT greatest(coalesce((SELECT max(epoch) FROM t_outbox_lease), 0), coalesce((SELECT max(epoch) FROM t_outbox_checkpoint), 0),
 coalesce((SELECT max(epoch) FROM settle_renewal WHERE scope = ?), 0))`
)

func (g *Governance) restart(ctx context.Context, d *deed, from int64) (govern.Restart, error) {
	var r govern.Restart
	if _, err := d.do(ctx, makeLease, 0); err != nil {
		return r, err
	}
	if err := each(ctx, d.tx, []any{new(int)}, func() {}, lockLeases); err != nil {
		return r, err
	}
	// The version too, so that nothing is deleted meanwhile.
	if _, err := d.do(ctx, bumpControls); err != nil {
		return r, err
	}
	lead, err := g.leaders(ctx, d.tx)
	if err != nil {
		return r, err
	}
	for _, l := range lead {
		return r, fmt.Errorf("%w: %s, until %s; end it, or wait until then", govern.ErrLeads, l.Owner, l.Expires.UTC().Format("15:04:05"))
	}
	st, err := g.s.firstPosition(ctx, d.tx)
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
	if err := d.tx.QueryRowContext(ctx, g.s.reading(countAround), from-1, from-1, "", "").Scan(&r.Passed, &r.Sent); err != nil {
		return r, err
	}
	if err := g.moveBeside(ctx, d, &r); err != nil {
		return r, err
	}
	if err := d.tx.QueryRowContext(ctx, highestOfAll, relayScope).Scan(&r.Epoch); err != nil {
		return r, err
	}
	r.Epoch++
	if _, err := d.do(ctx, fenceLeases, "restart by "+d.By, r.Epoch, d.now); err != nil {
		return r, err
	}
	if err := g.writePosition(ctx, d, st, r); err != nil {
		return r, err
	}
	if g.s.adopted != nil {
		if _, err := d.do(ctx, forgetForeign, st.MaxID, from-1); err != nil {
			return r, err
		}
	}
	if g.s.adopted.sweepable() {
		if err := g.markPassed(ctx, d, r); err != nil {
			return r, err
		}
	}
	return r, d.audit(ctx, govern.ActionRestart, "from id "+strconv.FormatInt(from, 10))
}

const (
	// What was noted of ids of another life is not what became of those of now.
	dropOtherNoted = `DELETE q FROM t_outbox_projection q LEFT JOIN t_outbox_parked p ON p.id = q.id WHERE p.id IS NULL`

	noteSent = `INSERT IGNORE INTO t_outbox_projection (id, status, attempts, next_at, cause, noted_at)
SELECT e.id, '` + projectedSent + `', 0, NULL, '', ? FROM settle_outbox_log e WHERE e.id < ?
AND NOT EXISTS (SELECT 1 FROM t_outbox_parked p WHERE p.id = e.id) AND NOT EXISTS (SELECT 1 FROM t_outbox_delayed t WHERE t.id = e.id)
AND NOT EXISTS (SELECT 1 FROM t_outbox_extra x WHERE x.id = e.id) AND NOT EXISTS (SELECT 1 FROM settle_skip k WHERE k.event_id = (e.event_id))
AND NOT EXISTS (SELECT 1 FROM t_dead_letter l WHERE l.consumer_group = '' AND l.event_id = (e.event_id) AND l.outbox_id = e.id AND l.state IN ('OPEN', 'REPLAYING', 'DISCARDED'))`
)

// markPassed has the rows before the new position say in an adopted table that
// they are sent, as they count. One that went on saying that it waits would
// look like one that a person has set back, and be sent.
func (g *Governance) markPassed(ctx context.Context, d *deed, r govern.Restart) error {
	if _, err := d.do(ctx, dropOtherNoted); err != nil {
		return err
	}
	_, err := d.do(ctx, g.s.reading(noteSent), d.now, r.From)
	return err
}

const (
	// One that is to be sent again, and whose id is another event's now, was sent
	// before.
	dropListed = `DELETE x FROM t_outbox_extra x WHERE x.id >= ? OR NOT EXISTS (SELECT 1 FROM t_outbox_event e
 WHERE e.id = x.id AND (x.reason <> 'resend' OR left(x.message_id, char_length(e.event_id) + 1) = concat((e.event_id), '#')))`

	besideLog = `(SELECT id, event_id, event_type, destination, aggregate_id, message_id FROM t_outbox_parked
 UNION ALL SELECT id, event_id, '', destination, aggregate_id, '' FROM t_outbox_delayed) s`

	// What the relay reads anew is tried anew.
	closeLetters = `UPDATE t_dead_letter d JOIN t_outbox_event e ON (e.event_id) = d.event_id SET d.state = 'REPLAYED', d.closed_at = ?, d.closed_by = ?
WHERE d.consumer_group = '' AND d.state IN ('OPEN', 'REPLAYING') AND (e.id >= ? OR e.id <> d.outbox_id)`

	listMoved = `INSERT INTO t_outbox_extra (id, message_id, reason, added_at)
SELECT e.id, s.message_id, 'moved', ? FROM ` + besideLog + ` JOIN t_outbox_event e ON (e.event_id) = s.event_id WHERE e.id < ? AND e.id <> s.id
ON DUPLICATE KEY UPDATE id = t_outbox_extra.id`

	lost = besideLog + ` WHERE NOT EXISTS (SELECT 1 FROM t_outbox_event e WHERE (e.event_id) = s.event_id)`

	countLost = `SELECT count(*) FROM ` + lost

	openLost = `INSERT INTO t_dead_letter (service_side, consumer_group, event_id, destination, outbox_id, event_type, aggregate_id, biz_key,
 class, reason, attempts, state, blocking, opened_at, due_at, topic, record_key)
SELECT 'relay', '', s.event_id, s.destination, 0, s.event_type, s.aggregate_id, s.aggregate_id, ?, ?, 0, 'OPEN', false, ?, ?, s.destination, s.aggregate_id
FROM ` + lost + `
ON DUPLICATE KEY UPDATE class = VALUES(class), reason = VALUES(reason), state = 'OPEN', outbox_id = 0,
 blocking = false, opened_at = VALUES(opened_at), due_at = VALUES(due_at), closed_at = NULL, closed_by = ''`

	dropOtherParked = `DELETE s FROM t_outbox_parked s WHERE s.id >= ? OR NOT EXISTS (SELECT 1 FROM t_outbox_event e WHERE e.id = s.id AND (e.event_id) = s.event_id)`

	dropOtherDelayed = `DELETE s FROM t_outbox_delayed s WHERE s.id >= ? OR NOT EXISTS (SELECT 1 FROM t_outbox_event e WHERE e.id = s.id AND (e.event_id) = s.event_id)`

	countKept = `SELECT (SELECT count(*) FROM t_outbox_parked) + (SELECT count(*) FROM t_outbox_delayed) + (SELECT count(*) FROM t_outbox_extra)`
)

// causeLost is what a dead letter says of an event that a restart has not found.
const causeLost = "it waited to be sent, and its row is not in the outbox that the relay was restarted on"

// moveBeside matches what waits beside the log with the table by event id: the
// same id may be another event's now.
func (g *Governance) moveBeside(ctx context.Context, d *deed, r *govern.Restart) error {
	if err := d.tx.QueryRowContext(ctx, g.s.reading(countLost)).Scan(&r.Lost); err != nil {
		return err
	}
	for _, s := range []struct {
		query string
		args  []any
	}{
		{dropListed, []any{r.From}},
		{closeLetters, []any{d.now, d.By, r.From}},
		{openLost, []any{string(settle.ClassRowDeleted), causeLost, d.now, d.now.Add(relayLetterDue)}},
		{listMoved, []any{d.now, r.From}},
		{dropOtherParked, []any{r.From}},
		{dropOtherDelayed, []any{r.From}},
	} {
		if _, err := d.do(ctx, g.s.reading(s.query), s.args...); err != nil {
			return err
		}
	}
	return d.tx.QueryRowContext(ctx, countKept).Scan(&r.Kept)
}

const (
	dropAllGaps = `DELETE FROM t_outbox_gap`

	// A transaction that is open now may own a missing id below the new position:
	// should it commit, its row is late.
	addMissing = `INSERT INTO t_outbox_gap (first_id, last_id, recorded_at) SELECT first_id, last_id, ? FROM
 (SELECT coalesce(lag(id) OVER (ORDER BY id), 0) + 1 AS first_id, id - 1 AS last_id FROM
  (SELECT e.id FROM ` + logRows + ` WHERE e.id > 0 AND e.id < ? UNION ALL SELECT ?) ids) runs WHERE first_id <= last_id`

	// Where the broker had what those of another life speak of is no longer true
	// of the ids: they are, or will be, other events'.
	dropAbove = `DELETE FROM t_outbox_checkpoint WHERE last_id > ?`

	dropOtherLife = `DELETE c FROM t_outbox_checkpoint c JOIN
 JSON_TABLE(c.readers, '$[*]' COLUMNS (id BIGINT PATH '$.cursor', event_id VARCHAR(191) PATH '$.cursor_event')) r
 JOIN t_outbox_event e ON e.id = r.id WHERE CAST(e.event_id AS BINARY) <> CAST(r.event_id AS BINARY)`

	addPosition = `INSERT INTO t_outbox_checkpoint (lane, epoch, number, readers, created_at) VALUES (?,?,?,?,?)`

	// Also the lanes that have ended: those of the next generation begin where
	// they are.
	everyLane = `SELECT lane FROM t_outbox_lease UNION SELECT lane FROM v_outbox_lane ORDER BY lane`

	lowerBarrier = `UPDATE t_outbox_division SET barrier = least(barrier, ?) WHERE begun_at IS NULL`
)

// writePosition leaves what a leader would have left that has come up to there.
func (g *Governance) writePosition(ctx context.Context, d *deed, st relay.State, r govern.Restart) error {
	for _, s := range []struct {
		query string
		args  []any
	}{
		{dropAllGaps, nil},
		{g.s.reading(addMissing), []any{d.now, r.From, r.From}},
		{dropAbove, []any{st.MaxID}},
		{dropOtherLife, nil},
	} {
		if _, err := d.do(ctx, s.query, s.args...); err != nil {
			return err
		}
	}
	at := relay.Reader{Cursor: r.From - 1}
	err := d.tx.QueryRowContext(ctx, eventAt, at.Cursor).Scan(&at.CursorEvent)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	readers := outboxlog.PackReadersInRuns([]relay.Reader{at})
	var lane int
	var lanes []int
	if err := each(ctx, d.tx, []any{&lane}, func() { lanes = append(lanes, lane) }, everyLane); err != nil {
		return err
	}
	for _, lane := range lanes {
		if _, err := d.do(ctx, addPosition, lane, r.Epoch, st.Checkpoint.Number+1, readers, d.now); err != nil {
			return err
		}
	}
	_, err = d.do(ctx, lowerBarrier, at.Cursor)
	return err
}
