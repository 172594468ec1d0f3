package mysql

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/halflog"
	"github.com/settlemq/settle/txmsg"
)

const (
	dueHalves = `SELECT tx_id, handle, event, payload, tries FROM t_half_message WHERE due_at <= ` + databaseNow + ` ORDER BY due_at LIMIT ? FOR UPDATE SKIP LOCKED`

	holdHalf = `UPDATE t_half_message SET due_at = ` + databaseNow + ` + INTERVAL ? MICROSECOND WHERE tx_id = ?`
)

// Due implements txmsg.Ledger.
func (h *Halves) Due(ctx context.Context, limit int, hold time.Duration) (open []txmsg.Open, err error) {
	err = h.s.write(ctx, h.s.own, func(tx *sql.Tx) error {
		open = open[:0]
		rows, err := tx.QueryContext(ctx, dueHalves, h.s.clock(), limit)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			o, err := scanOpen(rows)
			if err != nil {
				return err
			}
			open = append(open, o)
		}
		if err := rows.Err(); err != nil {
			return err
		}
		for i := range open {
			if _, err := tx.ExecContext(ctx, holdHalf, h.s.clock(), hold.Microseconds(), open[i].ID); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("claim half messages that are due: %w", err)
	}
	return open, nil
}

func scanOpen(row interface{ Scan(...any) error }) (o txmsg.Open, err error) {
	var event, payload []byte
	if err := row.Scan(&o.ID, &o.Handle, &event, &payload, &o.Tries); err != nil {
		return o, err
	}
	o.Event, err = halflog.EventOf(event, payload)
	return o, err
}

const (
	putOffHalf = `UPDATE t_half_message SET tries = ?, due_at = ` + databaseNow + ` + INTERVAL ? MICROSECOND, cause = ? WHERE tx_id = ? AND state = 'COMMITTED'`

	moveHalf = `UPDATE t_half_message SET handle = ? WHERE tx_id = ? AND state = 'COMMITTED'`

	buryHalf = `UPDATE t_half_message SET state = 'DEAD', due_at = NULL, tries = ?, cause = ? WHERE tx_id = ? AND state = 'COMMITTED'`

	openHalf = `SELECT tx_id, handle, event, payload, tries FROM t_half_message WHERE tx_id = ?`

	insertHalfLetter = `INSERT INTO t_dead_letter
(service_side, consumer_group, event_id, destination, event_type, aggregate_type, aggregate_id, aggregate_seq, biz_key, trace_id, class, reason, attempts,
 state, blocking, opened_at, due_at, topic, appended_at, record_key, raw, payload, headers)
VALUES ('txmsg','',?,?,?,?,?,?,?,?,?,?,?,'OPEN',false,` + databaseNow + `,` + databaseNow + ` + INTERVAL ? MICROSECOND,?,?,?,?,?,?)
ON DUPLICATE KEY UPDATE class = VALUES(class), reason = VALUES(reason), attempts = VALUES(attempts), state = 'OPEN', opened_at = VALUES(opened_at), due_at = VALUES(due_at)`
)

// Mark implements txmsg.Ledger.
func (h *Halves) Mark(ctx context.Context, m txmsg.Mark) error {
	err := h.s.write(ctx, h.s.own, func(tx *sql.Tx) error {
		var err error
		switch m.Result {
		case txmsg.ResultAgain:
			_, err = tx.ExecContext(ctx, putOffHalf, m.Tries, h.s.clock(), m.Wait.Microseconds(), halflog.Cause(m.Cause), m.ID)
		case txmsg.ResultMoved:
			_, err = tx.ExecContext(ctx, moveHalf, string(m.Handle), m.ID)
		case txmsg.ResultGivenUp:
			err = h.bury(ctx, tx, m)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("mark half message %s: %w", m.ID, err)
	}
	return nil
}

// bury makes a record's event a dead letter, in the same transaction.
func (h *Halves) bury(ctx context.Context, tx *sql.Tx, m txmsg.Mark) error {
	res, err := tx.ExecContext(ctx, buryHalf, m.Tries, halflog.Cause(m.Cause), m.ID)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return err
	}
	o, err := scanOpen(tx.QueryRowContext(ctx, openHalf, m.ID))
	if err != nil {
		return err
	}
	e := o.Event
	headers, err := json.Marshal(e.Headers)
	if err != nil || e.Headers == nil {
		headers = []byte("{}")
	}
	_, err = tx.ExecContext(ctx, insertHalfLetter, e.ID, m.ID, e.Type, e.AggregateType, e.AggregateID, e.AggregateSeq, e.BizKey, e.TraceID,
		string(m.Class), halflog.GivenUp(m.Cause), m.Tries, h.s.clock(), h.s.clock(), halflog.Decide.Microseconds(), e.Topic, timeOrNull(e.AppendedAt),
		[]byte(e.AggregateID), halflog.Raw(e), e.Payload, headers)
	return err
}

const (
	purgeHalves = `DELETE FROM t_half_message WHERE ended_at < ` + databaseNow + ` - INTERVAL ? MICROSECOND ORDER BY ended_at LIMIT ?`

	purgeHalfChecks = `DELETE FROM t_half_check WHERE asked_at < ` + databaseNow + ` - INTERVAL ? MICROSECOND ORDER BY asked_at LIMIT ?`
)

// Purge implements txmsg.Ledger.
func (h *Halves) Purge(ctx context.Context, keep time.Duration, limit int) (n int, err error) {
	err = h.s.write(ctx, h.s.own, func(tx *sql.Tx) error {
		n = 0
		for _, query := range []string{purgeHalves, purgeHalfChecks} {
			res, err := tx.ExecContext(ctx, query, h.s.clock(), keep.Microseconds(), limit)
			if err != nil {
				return err
			}
			rows, err := res.RowsAffected()
			if err != nil {
				return err
			}
			n = max(n, int(rows))
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("delete old records of half messages: %w", err)
	}
	return n, nil
}

const (
	reviveHalf = `UPDATE t_half_message SET state = 'COMMITTED', tries = 0, due_at = ?, cause = '' WHERE tx_id = ? AND state = 'DEAD'`

	discardHalfRow = `UPDATE t_half_message SET state = 'DISCARDED', ended_at = ? WHERE tx_id = ? AND state = 'DEAD'`
)

// replayHalf makes a record due to be swept up, from its first try. The dead
// letter is closed when the broker has confirmed the event.
func replayHalf(ctx context.Context, d *deed, l *deadLetter) (string, error) {
	n, err := d.do(ctx, reviveHalf, d.now, l.destination)
	if err != nil {
		return "", err
	}
	if n == 0 {
		return halflog.NoRecord, nil
	}
	_, err = d.do(ctx, beginAgain, govern.StateReplaying, d.By, l.id)
	return "", err
}

func discardHalf(ctx context.Context, d *deed, l *deadLetter) error {
	_, err := d.do(ctx, discardHalfRow, d.now, l.destination)
	return err
}
