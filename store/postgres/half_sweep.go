package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/halflog"
	"github.com/settlemq/settle/txmsg"
)

const claimHalves = `UPDATE t_half_message m SET due_at = ` + databaseNow + ` + $2::bigint * interval '1 microsecond'
FROM (SELECT tx_id FROM t_half_message WHERE due_at <= ` + databaseNow + ` ORDER BY due_at LIMIT $3 FOR UPDATE SKIP LOCKED) d
WHERE m.tx_id = d.tx_id RETURNING m.tx_id, m.handle, m.event, m.payload, m.tries`

// Due implements txmsg.Ledger.
func (h *Halves) Due(ctx context.Context, limit int, hold time.Duration) (open []txmsg.Open, err error) {
	err = h.s.write(ctx, h.s.own, func(tx pgx.Tx) error {
		open = open[:0]
		rows, err := tx.Query(ctx, claimHalves, h.s.clock(), hold.Microseconds(), limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			o, err := scanOpen(rows)
			if err != nil {
				return err
			}
			open = append(open, o)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("claim half messages that are due: %w", err)
	}
	return open, nil
}

func scanOpen(row pgx.Row) (o txmsg.Open, err error) {
	var event, payload []byte
	if err := row.Scan(&o.ID, &o.Handle, &event, &payload, &o.Tries); err != nil {
		return o, err
	}
	o.Event, err = halflog.EventOf(event, payload)
	return o, err
}

const (
	putOffHalf = `UPDATE t_half_message SET tries = $2, due_at = ` + databaseNow + ` + $3::bigint * interval '1 microsecond', cause = $4 WHERE tx_id = $5 AND state = 'COMMITTED'`

	moveHalf = `UPDATE t_half_message SET handle = $1 WHERE tx_id = $2 AND state = 'COMMITTED'`

	buryHalf = `UPDATE t_half_message SET state = 'DEAD', due_at = NULL, tries = $1, cause = $2 WHERE tx_id = $3 AND state = 'COMMITTED'
RETURNING tx_id, handle, event, payload, tries`

	insertHalfLetter = `INSERT INTO t_dead_letter
(service_side, consumer_group, event_id, destination, event_type, aggregate_type, aggregate_id, aggregate_seq, biz_key, trace_id, class, reason, attempts,
 state, blocking, opened_at, due_at, topic, appended_at, record_key, raw, payload, headers)
SELECT 'txmsg', '', $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 'OPEN', false, n.at, n.at + $13::bigint * interval '1 microsecond', $14, $15, $16, $17, $18, $19
FROM (SELECT ` + databaseNow + ` AS at) n
ON CONFLICT (consumer_group, event_id, destination) DO UPDATE SET class = excluded.class, reason = excluded.reason, attempts = excluded.attempts,
 state = 'OPEN', opened_at = excluded.opened_at, due_at = excluded.due_at`
)

// Mark implements txmsg.Ledger.
func (h *Halves) Mark(ctx context.Context, m txmsg.Mark) error {
	err := h.s.write(ctx, h.s.own, func(tx pgx.Tx) error {
		var err error
		switch m.Result {
		case txmsg.ResultAgain:
			_, err = tx.Exec(ctx, putOffHalf, h.s.clock(), m.Tries, m.Wait.Microseconds(), halflog.Cause(m.Cause), m.ID)
		case txmsg.ResultMoved:
			_, err = tx.Exec(ctx, moveHalf, string(m.Handle), m.ID)
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
func (h *Halves) bury(ctx context.Context, tx pgx.Tx, m txmsg.Mark) error {
	o, err := scanOpen(tx.QueryRow(ctx, buryHalf, m.Tries, halflog.Cause(m.Cause), m.ID))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	e := o.Event
	headers, err := json.Marshal(e.Headers)
	if err != nil || e.Headers == nil {
		headers = []byte("{}")
	}
	_, err = tx.Exec(ctx, insertHalfLetter, h.s.clock(), e.ID, m.ID, e.Type, e.AggregateType, e.AggregateID, e.AggregateSeq, e.BizKey, e.TraceID,
		string(m.Class), halflog.GivenUp(m.Cause), m.Tries, halflog.Decide.Microseconds(), e.Topic, nullable(e.AppendedAt), []byte(e.AggregateID),
		halflog.Raw(e), e.Payload, headers)
	return err
}

const (
	purgeHalves = `DELETE FROM t_half_message WHERE tx_id IN (SELECT tx_id FROM t_half_message
WHERE ended_at < ` + databaseNow + ` - $2::bigint * interval '1 microsecond' ORDER BY ended_at LIMIT $3 FOR UPDATE SKIP LOCKED)`

	purgeHalfChecks = `DELETE FROM t_half_check WHERE id IN (SELECT id FROM t_half_check
WHERE asked_at < ` + databaseNow + ` - $2::bigint * interval '1 microsecond' ORDER BY asked_at LIMIT $3 FOR UPDATE SKIP LOCKED)`
)

// Purge implements txmsg.Ledger.
func (h *Halves) Purge(ctx context.Context, keep time.Duration, limit int) (n int, err error) {
	err = h.s.write(ctx, h.s.own, func(tx pgx.Tx) error {
		n = 0
		for _, query := range []string{purgeHalves, purgeHalfChecks} {
			tag, err := tx.Exec(ctx, query, h.s.clock(), keep.Microseconds(), limit)
			if err != nil {
				return err
			}
			n = max(n, int(tag.RowsAffected()))
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("delete old records of half messages: %w", err)
	}
	return n, nil
}

const (
	reviveHalf = `UPDATE t_half_message SET state = 'COMMITTED', tries = 0, due_at = $1, cause = '' WHERE tx_id = $2 AND state = 'DEAD'`

	discardHalfRow = `UPDATE t_half_message SET state = 'DISCARDED', ended_at = $1 WHERE tx_id = $2 AND state = 'DEAD'`
)

// replayHalf makes a record due to be swept up, from its first try. The dead
// letter is closed when the broker has confirmed the event.
func replayHalf(ctx context.Context, d *deed, l *deadLetter) (string, error) {
	tag, err := d.tx.Exec(ctx, reviveHalf, d.now, l.destination)
	if err != nil {
		return "", err
	}
	if tag.RowsAffected() == 0 {
		return halflog.NoRecord, nil
	}
	_, err = d.tx.Exec(ctx, beginAgain, govern.StateReplaying, d.By, l.id)
	return "", err
}

func discardHalf(ctx context.Context, d *deed, l *deadLetter) error {
	_, err := d.tx.Exec(ctx, discardHalfRow, d.now, l.destination)
	return err
}
