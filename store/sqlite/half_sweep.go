package sqlite

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
	anyDueHalf = `SELECT EXISTS (SELECT 1 FROM t_half_message WHERE due_at <= ?)`

	dueHalves = `SELECT tx_id, handle, event, payload, tries FROM t_half_message WHERE due_at <= ? ORDER BY due_at LIMIT ?`

	holdHalf = `UPDATE t_half_message SET due_at = ? WHERE tx_id = ?`
)

// Due implements txmsg.Ledger. It looks first: who finds nothing writes nothing.
func (h *Halves) Due(ctx context.Context, limit int, hold time.Duration) (open []txmsg.Open, err error) {
	now := h.s.now()
	var any bool
	if err := h.s.reader.QueryRowContext(ctx, anyDueHalf, now.UnixMicro()).Scan(&any); err != nil || !any {
		return nil, err
	}
	err = h.write(ctx, func(tx *sql.Tx) error {
		open = open[:0]
		if err := each(ctx, tx, func(rows *sql.Rows) error {
			o, err := scanOpen(rows)
			open = append(open, o)
			return err
		}, dueHalves, now.UnixMicro(), limit); err != nil {
			return err
		}
		for i := range open {
			if _, err := tx.ExecContext(ctx, holdHalf, now.Add(hold).UnixMicro(), open[i].ID); err != nil {
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

func scanOpen(row scanner) (o txmsg.Open, err error) {
	var event, payload []byte
	if err := row.Scan(&o.ID, &o.Handle, &event, &payload, &o.Tries); err != nil {
		return o, err
	}
	o.Event, err = halflog.EventOf(event, payload)
	return o, err
}

const (
	putOffHalf = `UPDATE t_half_message SET tries = ?, due_at = ?, cause = ? WHERE tx_id = ? AND state = 'COMMITTED'`

	moveHalf = `UPDATE t_half_message SET handle = ? WHERE tx_id = ? AND state = 'COMMITTED'`

	buryHalf = `UPDATE t_half_message SET state = 'DEAD', due_at = NULL, tries = ?, cause = ? WHERE tx_id = ? AND state = 'COMMITTED'`

	openHalf = `SELECT tx_id, handle, event, payload, tries FROM t_half_message WHERE tx_id = ?`

	insertHalfLetter = `INSERT INTO t_dead_letter
(service_side, consumer_group, event_id, destination, event_type, aggregate_type, aggregate_id, aggregate_seq, biz_key, trace_id, class, reason, attempts,
 state, blocking, opened_at, due_at, topic, appended_at, record_key, raw, payload, headers)
VALUES ('txmsg','',?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,'OPEN',0,?12,?13,?14,?15,?5,?16,?17,?18)
ON CONFLICT (consumer_group, event_id, destination) DO UPDATE SET class = excluded.class, reason = excluded.reason, attempts = excluded.attempts,
 state = 'OPEN', opened_at = excluded.opened_at, due_at = excluded.due_at`
)

// Mark implements txmsg.Ledger.
func (h *Halves) Mark(ctx context.Context, m txmsg.Mark) error {
	err := h.write(ctx, func(tx *sql.Tx) error {
		var err error
		switch m.Result {
		case txmsg.ResultAgain:
			_, err = tx.ExecContext(ctx, putOffHalf, m.Tries, h.s.now().Add(m.Wait).UnixMicro(), halflog.Cause(m.Cause), m.ID)
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
	found, err := affected(tx.ExecContext(ctx, buryHalf, m.Tries, halflog.Cause(m.Cause), m.ID))
	if err != nil || !found {
		return err
	}
	o, err := scanOpen(tx.QueryRowContext(ctx, openHalf, m.ID))
	if err != nil {
		return err
	}
	e, now := o.Event, h.s.now()
	headers, err := json.Marshal(e.Headers)
	if err != nil || e.Headers == nil {
		headers = []byte("{}")
	}
	_, err = tx.ExecContext(ctx, insertHalfLetter, e.ID, m.ID, e.Type, e.AggregateType, e.AggregateID, e.AggregateSeq, e.BizKey, e.TraceID,
		string(m.Class), halflog.GivenUp(m.Cause), m.Tries, now.UnixMicro(), now.Add(halflog.Decide).UnixMicro(), e.Topic, micros(e.AppendedAt),
		halflog.Raw(e), e.Payload, string(headers))
	return err
}

const (
	purgeHalves = `DELETE FROM t_half_message WHERE tx_id IN (SELECT tx_id FROM t_half_message WHERE ended_at < ? ORDER BY ended_at LIMIT ?)`

	purgeHalfChecks = `DELETE FROM t_half_check WHERE id IN (SELECT id FROM t_half_check WHERE asked_at < ? ORDER BY asked_at LIMIT ?)`
)

// Purge implements txmsg.Ledger.
func (h *Halves) Purge(ctx context.Context, keep time.Duration, limit int) (n int, err error) {
	before := h.s.now().Add(-keep).UnixMicro()
	err = h.write(ctx, func(tx *sql.Tx) error {
		n = 0
		for _, query := range []string{purgeHalves, purgeHalfChecks} {
			res, err := tx.ExecContext(ctx, query, before, limit)
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

	discardHalf = `UPDATE t_half_message SET state = 'DISCARDED', ended_at = ? WHERE tx_id = ? AND state = 'DEAD'`
)

// replayHalf makes a record due to be swept up, from its first try. The dead
// letter is closed when the broker has confirmed the event.
func replayHalf(ctx context.Context, tx *sql.Tx, now time.Time, a govern.Act, d *deadLetter) (string, error) {
	found, err := affected(tx.ExecContext(ctx, reviveHalf, now.UnixMicro(), d.destination))
	if err != nil {
		return "", err
	}
	if !found {
		return halflog.NoRecord, nil
	}
	_, err = tx.ExecContext(ctx, beginAgain, govern.StateReplaying, a.By, d.id)
	return "", err
}
