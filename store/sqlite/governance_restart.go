package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
)

// Restart implements govern.Restarter.
func (g *Governance) Restart(ctx context.Context, a govern.Act, from int64) (govern.Restart, error) {
	if a.Reason == "" {
		return govern.Restart{}, errors.New("restart relay: no reason is given")
	}
	var r govern.Restart
	err := g.act(ctx, a, func(tx *sql.Tx, now time.Time) (err error) {
		r, err = g.restart(ctx, tx, now, a, from)
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
	fenceLease = `INSERT INTO t_outbox_lease (lane, owner, epoch, clean, deaths, taken_at) VALUES (0,?,?,1,0,?)
ON CONFLICT (lane) DO UPDATE SET owner = excluded.owner, epoch = excluded.epoch, clean = 1, deaths = 0, taken_at = excluded.taken_at`

	highestEpoch = `SELECT max(coalesce((SELECT max(epoch) FROM t_outbox_lease), 0), coalesce((SELECT max(epoch) FROM t_outbox_checkpoint), 0))`
)

// restart holds the file's write lock, so that no lease is taken meanwhile.
func (g *Governance) restart(ctx context.Context, tx *sql.Tx, now time.Time, a govern.Act, from int64) (r govern.Restart, err error) {
	lead, err := readLease(ctx, g.s.lease, 0)
	if err != nil {
		return r, err
	}
	if now.Before(lead.expires) {
		return r, fmt.Errorf("%w: %s, until %s; end it, or wait until then", govern.ErrLeads, lead.owner, lead.expires.Format("15:04:05"))
	}
	st, err := readPosition(ctx, tx)
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
	if err := tx.QueryRowContext(ctx, countAround, from-1, "").Scan(&r.Passed, &r.Sent); err != nil {
		return r, err
	}
	if err := moveBeside(ctx, tx, now, a, &r); err != nil {
		return r, err
	}
	if err := tx.QueryRowContext(ctx, highestEpoch).Scan(&r.Epoch); err != nil {
		return r, err
	}
	r.Epoch = max(r.Epoch, lead.epoch) + 1
	if _, err := tx.ExecContext(ctx, fenceLease, "restart by "+a.By, r.Epoch, now.UnixMicro()); err != nil {
		return r, err
	}
	if err := writePosition(ctx, tx, now, st, r); err != nil {
		return r, err
	}
	if _, err := tx.ExecContext(ctx, bumpControls); err != nil {
		return r, err
	}
	return r, audit(ctx, tx, now, a, govern.ActionRestart, "from id "+strconv.FormatInt(from, 10))
}

const (
	// One that is to be sent again, and whose id is another event's now, was sent
	// before.
	dropListed = `DELETE FROM t_outbox_extra AS x WHERE x.id >= ?1 OR NOT EXISTS (SELECT 1 FROM t_outbox_event e
 WHERE e.id = x.id AND (x.reason <> 'resend' OR substr(x.message_id, 1, length(e.event_id) + 1) = e.event_id || '#'))`

	beside = `(SELECT id, event_id, event_type, destination, aggregate_id, message_id FROM t_outbox_parked
 UNION ALL SELECT id, event_id, '', destination, aggregate_id, '' FROM t_outbox_delayed) AS s`

	// What the relay reads anew is tried anew.
	closeLetters = `UPDATE t_dead_letter AS d SET state = 'REPLAYED', closed_at = ?2, closed_by = ?3 WHERE d.consumer_group = '' AND d.state IN ('OPEN', 'REPLAYING')
AND EXISTS (SELECT 1 FROM t_outbox_event e WHERE e.event_id = d.event_id AND (e.id >= ?1 OR e.id <> d.outbox_id))`

	listMoved = `INSERT INTO t_outbox_extra (id, message_id, reason, added_at)
SELECT e.id, s.message_id, 'moved', ?2 FROM ` + beside + ` JOIN t_outbox_event e ON e.event_id = s.event_id WHERE e.id < ?1 AND e.id <> s.id
ON CONFLICT DO NOTHING`

	openLost = `INSERT INTO t_dead_letter (service_side, consumer_group, event_id, destination, outbox_id, event_type, aggregate_id, biz_key,
 class, reason, attempts, state, blocking, opened_at, due_at, topic, record_key)
SELECT 'relay', '', s.event_id, s.destination, 0, s.event_type, s.aggregate_id, s.aggregate_id, ?1, ?2, 0, 'OPEN', 0, ?3, ?4, s.destination, s.aggregate_id
FROM ` + beside + ` WHERE NOT EXISTS (SELECT 1 FROM t_outbox_event e WHERE e.event_id = s.event_id)
ON CONFLICT (consumer_group, event_id, destination) DO UPDATE SET class = excluded.class, reason = excluded.reason, state = 'OPEN', outbox_id = 0,
 blocking = 0, opened_at = excluded.opened_at, due_at = excluded.due_at, closed_at = NULL, closed_by = ''`

	dropOtherParked = `DELETE FROM t_outbox_parked AS s WHERE s.id >= ?1 OR NOT EXISTS (SELECT 1 FROM t_outbox_event e WHERE e.id = s.id AND e.event_id = s.event_id)`

	dropOtherDelayed = `DELETE FROM t_outbox_delayed AS s WHERE s.id >= ?1 OR NOT EXISTS (SELECT 1 FROM t_outbox_event e WHERE e.id = s.id AND e.event_id = s.event_id)`

	countKept = `SELECT (SELECT count(*) FROM t_outbox_parked) + (SELECT count(*) FROM t_outbox_delayed) + (SELECT count(*) FROM t_outbox_extra)`
)

// causeLost is what a dead letter says of an event that a restart has not found.
const causeLost = "it waited to be sent, and its row is not in the outbox that the relay was restarted on"

// moveBeside matches what waits beside the log with the table by event id: the
// same id may be another event's now.
func moveBeside(ctx context.Context, tx *sql.Tx, now time.Time, a govern.Act, r *govern.Restart) error {
	if _, err := tx.ExecContext(ctx, dropListed, r.From); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, closeLetters, r.From, now.UnixMicro(), a.By); err != nil {
		return err
	}
	res, err := tx.ExecContext(ctx, openLost, string(settle.ClassRowDeleted), causeLost, now.UnixMicro(), now.Add(letterDue).UnixMicro())
	if err != nil {
		return err
	}
	if r.Lost, err = res.RowsAffected(); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, listMoved, r.From, now.UnixMicro()); err != nil {
		return err
	}
	for _, drop := range []string{dropOtherParked, dropOtherDelayed} {
		if _, err := tx.ExecContext(ctx, drop, r.From); err != nil {
			return err
		}
	}
	return tx.QueryRowContext(ctx, countKept).Scan(&r.Kept)
}

const (
	// What is read anew, or counts as sent, is not late.
	dropGaps = `DELETE FROM t_outbox_gap WHERE id >= ?1 OR id IN (SELECT id FROM t_outbox_event)`

	// Where the broker had what those of another life speak of is no longer true
	// of the ids: they are, or will be, other events'.
	dropOtherLife = `DELETE FROM t_outbox_checkpoint AS c WHERE c.last_id > ?1 OR EXISTS (SELECT 1 FROM json_each(c.readers) r
 JOIN t_outbox_event e ON e.id = json_extract(r.value, '$.cursor') WHERE e.event_id <> coalesce(json_extract(r.value, '$.cursor_event'), e.event_id))`
)

// writePosition leaves what a leader would have left that has come up to there.
func writePosition(ctx context.Context, tx *sql.Tx, now time.Time, st relay.State, r govern.Restart) error {
	if _, err := tx.ExecContext(ctx, dropGaps, r.From); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, dropOtherLife, st.MaxID); err != nil {
		return err
	}
	event, err := eventOf(ctx, tx, r.From-1)
	if err != nil {
		return err
	}
	readers, err := json.Marshal([]relay.Reader{{Cursor: r.From - 1, CursorEvent: event}})
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, addCheckpoint, 0, r.Epoch, st.Checkpoint.Number+1, string(readers), nil, nil, nil, now.UnixMicro())
	return err
}
