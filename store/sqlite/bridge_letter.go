package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/bridgelog"
)

const (
	knowsBridged = `SELECT EXISTS (SELECT 1 FROM t_bridged_letter WHERE consumer_group = ? AND identity = ?)`

	insertBridgedDead = `INSERT INTO t_dead_letter
(service_side, consumer_group, event_id, destination, event_type, aggregate_type, aggregate_id, aggregate_seq, biz_key, trace_id, class, reason, attempts,
 state, blocking, opened_at, due_at, topic, partition, offset, appended_at, recorded_at, record_key, raw, payload, headers)
VALUES ('bridge',?,?,?,?,?,?,?,?,?,?,?,?,'OPEN',0,?,?,?,?,?,?,?,?,?,?,?)`

	// By the return id that the message carries, or else by the event that was
	// replayed last.
	findBefore = `SELECT coalesce((SELECT letter_id FROM t_bridged_letter WHERE consumer_group = ?1 AND identity = ?2),
 (SELECT max(id) FROM t_dead_letter WHERE consumer_group = ?1 AND event_id = ?3 AND service_side = 'bridge' AND state IN ('REPLAYING', 'REPLAYED')))`

	insertBridged = `INSERT INTO t_bridged_letter (letter_id, consumer_group, identity, before_id, died_at, bridged_at, told) VALUES (?,?,?,?,?,?,?)`
)

// Keep implements bridge.Store.
func (b *Bridge) Keep(ctx context.Context, l bridge.Lease, letters []bridge.Letter) (fresh int, err error) {
	rows, err := bridgelog.RowsOf(letters)
	if err != nil {
		return 0, err
	}
	err = b.write(ctx, l, func(tx *sql.Tx) error {
		for i := range rows {
			added, err := b.keep(ctx, tx, l.Group, &rows[i])
			if err != nil {
				return err
			}
			if added {
				fresh++
			}
		}
		b.s.crash("bridge.before_commit")
		// Crash here: none of them is kept, and none was acknowledged.
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("keep %d dead letters of group %s: %w", len(letters), l.Group, err)
	}
	b.s.crash("bridge.after_commit")
	return fresh, nil
}

func (b *Bridge) keep(ctx context.Context, tx *sql.Tx, group string, r *bridgelog.Row) (bool, error) {
	var known bool
	if err := tx.QueryRowContext(ctx, knowsBridged, group, r.Identity).Scan(&known); err != nil || known {
		return false, err
	}
	var before sql.NullInt64
	if err := tx.QueryRowContext(ctx, findBefore, group, r.ReturnID, r.EventID).Scan(&before); err != nil {
		return false, err
	}
	now := b.s.now()
	res, err := tx.ExecContext(ctx, insertBridgedDead, group, r.EventID, r.Identity, r.EventType, r.AggregateType, r.AggregateID, r.AggregateSeq, r.BizKey, r.TraceID,
		r.Class, r.Reason, r.Attempts, now.UnixMicro(), now.Add(bridgelog.Due).UnixMicro(), r.Topic, r.Partition, r.Offset,
		micros(r.AppendedAt), micros(r.RecordedAt), string(r.RecordKey), r.Raw, r.Payload, string(r.Headers))
	if err != nil {
		return false, err
	}
	id, err := res.LastInsertId()
	if err != nil {
		return false, err
	}
	_, err = tx.ExecContext(ctx, insertBridged, id, group, r.Identity, before, micros(r.DiedAt), now.UnixMicro(), r.Told)
	return true, err
}

const (
	readOrdered = `SELECT d.id, d.destination, b.target, b.tries, d.record_key, d.raw, b.told, d.recorded_at
FROM t_bridged_letter b JOIN t_dead_letter d ON d.id = b.letter_id
WHERE b.consumer_group = ? AND b.next_at <= ? AND d.state = 'REPLAYING' ORDER BY b.letter_id LIMIT ?`

	nextOrdered = `SELECT min(next_at) FROM t_bridged_letter WHERE consumer_group = ? AND next_at IS NOT NULL`
)

// Ordered implements bridge.Store.
func (b *Bridge) Ordered(ctx context.Context, group string, limit int) (bridge.Ordered, error) {
	tx, err := b.s.snapshot(ctx)
	if err != nil {
		return bridge.Ordered{}, err
	}
	defer func() { _ = tx.Rollback() }()
	o, err := b.ordered(ctx, tx, group, limit)
	if err != nil {
		return bridge.Ordered{}, fmt.Errorf("read ordered replays of group %s: %w", group, err)
	}
	return o, nil
}

func (b *Bridge) ordered(ctx context.Context, tx *sql.Tx, group string, limit int) (o bridge.Ordered, err error) {
	err = each(ctx, tx, func(rows *sql.Rows) error {
		var id int64
		var identity string
		var to govern.Target
		var tries int
		var key, raw, told []byte
		var recorded sql.NullInt64
		if err := rows.Scan(&id, &identity, &to, &tries, &key, &raw, &told, &recorded); err != nil {
			return err
		}
		order, err := bridgelog.OrderOf(id, group, identity, to, tries, key, raw, told, when(recorded))
		o.Orders = append(o.Orders, order)
		return err
	}, readOrdered, group, b.s.now().UnixMicro(), limit)
	if err != nil {
		return o, err
	}
	var next sql.NullInt64
	if err := tx.QueryRowContext(ctx, nextOrdered, group).Scan(&next); err != nil {
		return o, err
	}
	o.Next = when(next)
	return o, nil
}

const (
	markReturned = `UPDATE t_dead_letter SET state = 'REPLAYED', closed_at = ?, closed_by = acted_by WHERE id = ? AND service_side = 'bridge' AND state = 'REPLAYING'`

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
				_, err = tx.ExecContext(ctx, markReturned, b.s.now().UnixMicro(), m.ID)
			case bridge.ResultGivenUp:
				_, err = tx.ExecContext(ctx, markOpen, m.ID)
			case bridge.ResultAgain:
			}
			if err == nil {
				_, err = tx.ExecContext(ctx, markTried, m.Tries, micros(m.NextAt), m.Cause, m.ID)
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

const orderReturn = `UPDATE t_bridged_letter SET target = ?, tries = 0, next_at = ?, refused = '' WHERE letter_id = ?`

const readTold = `SELECT told FROM t_bridged_letter WHERE letter_id = ?`

// replayForeign orders the bridge to send a letter back. It closes the dead
// letter when the broker has it.
func replayForeign(ctx context.Context, tx *sql.Tx, now time.Time, a govern.Act, o govern.ReplayOptions, d *deadLetter) (string, error) {
	var told []byte
	err := tx.QueryRowContext(ctx, readTold, d.id).Scan(&told)
	if errors.Is(err, sql.ErrNoRows) {
		return "what it tells of itself is missing", nil
	}
	if err != nil {
		return "", err
	}
	to, why := bridgelog.Target(o.To, d.group, told)
	if why != "" {
		return why, nil
	}
	if _, err := tx.ExecContext(ctx, orderReturn, string(to), now.UnixMicro(), d.id); err != nil {
		return "", err
	}
	_, err = tx.ExecContext(ctx, beginAgain, govern.StateReplaying, a.By, d.id)
	return "", err
}

const showBridged = `SELECT coalesce(before_id, 0), died_at, bridged_at, told, target, tries, refused FROM t_bridged_letter WHERE letter_id = ?`

// bridged returns what is kept of a letter of a consumer that is not ours.
func bridged(ctx context.Context, tx *sql.Tx, id int64) (*govern.Bridged, error) {
	var b govern.Bridged
	var died sql.NullInt64
	var stored int64
	var told []byte
	err := tx.QueryRowContext(ctx, showBridged, id).Scan(&b.Before, &died, &stored, &told, &b.Target, &b.Tries, &b.Refused)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b.BridgedAt, b.DiedAt = fromMicros(stored), when(died)
	bridgelog.Tell(&b, told)
	return &b, nil
}
