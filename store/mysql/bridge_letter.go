package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/bridgelog"
)

const (
	insertBridgedDead = `INSERT INTO t_dead_letter
(service_side, consumer_group, event_id, destination, event_type, aggregate_type, aggregate_id, aggregate_seq, biz_key, trace_id, class, reason, attempts,
 state, blocking, opened_at, due_at, topic, ` + "`partition`, `offset`" + `, appended_at, recorded_at, record_key, raw, payload, headers)
VALUES ('bridge',?,?,?,?,?,?,?,?,?,?,?,?,'OPEN',false,?,?,?,?,?,?,?,?,?,?,?)`

	// By the return id that the message carries, or else by the event that was
	// replayed last.
	findBefore = `SELECT EXISTS (SELECT 1 FROM t_bridged_letter WHERE consumer_group = ? AND identity = ?),
 coalesce((SELECT letter_id FROM t_bridged_letter WHERE consumer_group = ? AND identity = ?),
 (SELECT max(id) FROM t_dead_letter WHERE consumer_group = ? AND event_id = ? AND service_side = 'bridge' AND state IN ('REPLAYING', 'REPLAYED'))),
 ` + databaseNow

	insertBridged = `INSERT INTO t_bridged_letter (letter_id, consumer_group, identity, before_id, died_at, bridged_at, told) VALUES (?,?,?,?,?,?,?)`
)

// Keep implements bridge.Store.
func (b *Bridge) Keep(ctx context.Context, l bridge.Lease, letters []bridge.Letter) (fresh int, err error) {
	rows, err := bridgelog.RowsOf(letters)
	if err != nil {
		return 0, err
	}
	err = b.write(ctx, l, func(tx *sql.Tx) error {
		fresh = 0
		for i := range rows {
			added, err := b.keep(ctx, tx, l.Group, &rows[i])
			if err != nil {
				return err
			}
			if added {
				fresh++
			}
		}
		b.s.cfg.Crash("bridge.before_commit")
		// Crash here: none of them is kept, and none was acknowledged.
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("keep %d dead letters of group %s: %w", len(letters), l.Group, err)
	}
	b.s.cfg.Crash("bridge.after_commit")
	return fresh, nil
}

func (b *Bridge) keep(ctx context.Context, tx *sql.Tx, group string, r *bridgelog.Row) (bool, error) {
	var known bool
	var before sql.NullInt64
	var now timeColumn
	if err := tx.QueryRowContext(ctx, findBefore, group, r.Identity, group, r.ReturnID, group, r.EventID, b.s.clock()).Scan(&known, &before, &now); err != nil || known {
		return false, err
	}
	res, err := tx.ExecContext(ctx, insertBridgedDead, group, r.EventID, r.Identity, r.EventType, r.AggregateType, r.AggregateID, r.AggregateSeq, r.BizKey, r.TraceID,
		r.Class, prose(r.Reason), r.Attempts, now.Time, now.Add(bridgelog.Due), fitTo(r.Topic, topicWidth), r.Partition, r.Offset,
		timeOrNull(r.AppendedAt), timeOrNull(r.RecordedAt), r.RecordKey, r.Raw, r.Payload, r.Headers)
	if err != nil {
		return false, err
	}
	id, err := res.LastInsertId()
	if err != nil {
		return false, err
	}
	_, err = tx.ExecContext(ctx, insertBridged, id, group, r.Identity, before, timeOrNull(r.DiedAt), now.Time, r.Told)
	return true, err
}

const (
	readOrdered = `SELECT d.id, d.destination, b.target, b.tries, d.record_key, d.raw, b.told, d.recorded_at
FROM t_bridged_letter b JOIN t_dead_letter d ON d.id = b.letter_id
WHERE b.consumer_group = ? AND b.next_at <= ` + databaseNow + ` AND d.state = 'REPLAYING' ORDER BY b.letter_id LIMIT ?`

	nextOrdered = `SELECT min(next_at) FROM t_bridged_letter WHERE consumer_group = ? AND next_at IS NOT NULL`
)

// Ordered implements bridge.Store.
func (b *Bridge) Ordered(ctx context.Context, group string, limit int) (bridge.Ordered, error) {
	var o bridge.Ordered
	err := snapshot(ctx, b.s.reader, func(tx *sql.Tx) error {
		var id int64
		var identity string
		var to govern.Target
		var tries int
		var key, raw, told []byte
		var recorded, next timeColumn
		var wrong error
		err := each(ctx, tx, []any{&id, &identity, &to, &tries, &key, &raw, &told, &recorded}, func() {
			order, err := bridgelog.OrderOf(id, group, identity, to, tries, key, raw, told, recorded.Time)
			wrong = errors.Join(wrong, err)
			o.Orders = append(o.Orders, order)
			key, raw, told = nil, nil, nil
		}, readOrdered, group, b.s.clock(), limit)
		if err := errors.Join(err, wrong); err != nil {
			return err
		}
		err = tx.QueryRowContext(ctx, nextOrdered, group).Scan(&next)
		o.Next = next.Time
		return err
	})
	if err != nil {
		return bridge.Ordered{}, fmt.Errorf("read ordered replays of group %s: %w", group, explain(err))
	}
	return o, nil
}

const (
	markReturned = `UPDATE t_dead_letter SET state = 'REPLAYED', closed_at = ` + databaseNow + `, closed_by = acted_by WHERE id = ? AND service_side = 'bridge' AND state = 'REPLAYING'`

	markOpen = `UPDATE t_dead_letter SET state = 'OPEN' WHERE id = ? AND service_side = 'bridge' AND state = 'REPLAYING'`

	markTried = `UPDATE t_bridged_letter SET tries = ?, next_at = ?, refused = ? WHERE letter_id = ? AND next_at IS NOT NULL`
)

// Mark implements bridge.Store.
func (b *Bridge) Mark(ctx context.Context, l bridge.Lease, marks []bridge.Mark) error {
	err := b.write(ctx, l, func(tx *sql.Tx) error {
		for _, m := range marks {
			var err error
			switch m.Result {
			case bridge.ResultReturned:
				_, err = tx.ExecContext(ctx, markReturned, b.s.clock(), m.ID)
			case bridge.ResultGivenUp:
				_, err = tx.ExecContext(ctx, markOpen, m.ID)
			case bridge.ResultAgain:
			}
			if err == nil {
				_, err = tx.ExecContext(ctx, markTried, m.Tries, timeOrNull(m.NextAt), prose(m.Cause), m.ID)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("mark %d replays of group %s: %w", len(marks), l.Group, err)
	}
	return nil
}

const (
	readTold = `SELECT told FROM t_bridged_letter WHERE letter_id = ?`

	orderReturn = `UPDATE t_bridged_letter SET target = ?, tries = 0, next_at = ?, refused = '' WHERE letter_id = ?`
)

// replayForeign orders the bridge to send a letter back. It closes the dead
// letter when the broker has it.
func replayForeign(ctx context.Context, d *deed, l *deadLetter, o govern.ReplayOptions) (string, error) {
	var told []byte
	err := d.tx.QueryRowContext(ctx, readTold, l.id).Scan(&told)
	if errors.Is(err, sql.ErrNoRows) {
		return "what it tells of itself is missing", nil
	}
	if err != nil {
		return "", err
	}
	to, why := bridgelog.Target(o.To, l.group, told)
	if why != "" {
		return why, nil
	}
	if _, err := d.do(ctx, orderReturn, string(to), d.now, l.id); err != nil {
		return "", err
	}
	_, err = d.do(ctx, beginAgain, govern.StateReplaying, d.By, l.id)
	return "", err
}

// discardForeign lets nothing go: nothing of ours waits for the letter.
func discardForeign(context.Context, *deed, *deadLetter) error { return nil }

const showBridged = `SELECT coalesce(before_id, 0), died_at, bridged_at, told, target, tries, coalesce(refused, '') FROM t_bridged_letter WHERE letter_id = ?`

// bridged returns what is kept of a letter of a consumer that is not ours; nil
// where nothing is.
func bridged(ctx context.Context, tx *sql.Tx, id int64) (*govern.Bridged, error) {
	var b govern.Bridged
	var died, stored timeColumn
	var told []byte
	err := tx.QueryRowContext(ctx, showBridged, id).Scan(&b.Before, &died, &stored, &told, &b.Target, &b.Tries, &b.Refused)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b.DiedAt, b.BridgedAt = died.Time, stored.Time
	bridgelog.Tell(&b, told)
	return &b, nil
}
