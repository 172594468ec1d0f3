package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/settlemq/settle/store/halflog"
	"github.com/settlemq/settle/txmsg"
)

// Halves keeps the records of half messages.
type Halves struct {
	s *Store
}

// Halves returns the file as what transactional messages are kept in.
func (s *Store) Halves() *Halves { return &Halves{s: s} }

var _ txmsg.Store[*sql.Tx] = (*Halves)(nil)

// barWait is how long a check waits for a transaction that is open.
const barWait = time.Second

const readScope = `SELECT scope FROM t_half_scope WHERE one = 1`

// Scope implements txmsg.Ledger.
func (h *Halves) Scope(ctx context.Context) (scope string, err error) {
	if err := h.s.reader.QueryRowContext(ctx, readScope).Scan(&scope); err != nil {
		return "", fmt.Errorf("read which database it is: %w", err)
	}
	return scope, nil
}

const insertHalf = `INSERT INTO t_half_message (tx_id, state, event_id, event_type, aggregate_id, biz_key, trace_id, topic, handle, event, payload, recorded_at, due_at)
VALUES (?,'COMMITTED',?,?,?,?,?,?,?,?,?,?,?)`

// Transact implements txmsg.Store. The file has one writer: what waits for the
// transaction is every other one.
func (h *Halves) Transact(ctx context.Context, r txmsg.Record, f func(ctx context.Context, tx *sql.Tx) error) (txmsg.Outcome, error) {
	event, payload, err := halflog.Kept(r.Event)
	if err != nil {
		return txmsg.RolledBack, err
	}
	tx, err := h.s.Begin(ctx)
	if err != nil {
		return txmsg.RolledBack, err
	}
	defer func() { _ = tx.Rollback() }()
	e, now, biz := r.Event, h.s.now(), r.Event.BizKey
	if biz == e.AggregateID {
		biz = ""
	}
	if _, err := tx.ExecContext(ctx, insertHalf, r.ID, e.ID, e.Type, e.AggregateID, orNull(biz), orNull(e.TraceID), e.Topic, string(r.Handle),
		event, payload, now.UnixMicro(), now.Add(r.SweepAfter).UnixMicro()); err != nil {
		return txmsg.RolledBack, fmt.Errorf("insert record of half message %s: %w", r.ID, err)
	}
	if err := f(ctx, tx); err != nil {
		return txmsg.RolledBack, err
	}
	if err := tx.Commit(); err != nil {
		return txmsg.InDoubt, fmt.Errorf("commit half message %s: %w", r.ID, err)
	}
	return txmsg.Committed, nil
}

const (
	barHalf = `INSERT INTO t_half_message (tx_id, state, event_id, event_type, aggregate_id, topic, recorded_at, ended_at, cause)
VALUES (?1,'ROLLED_BACK',?2,?3,?4,?5,?6,?6,?7) ON CONFLICT (tx_id) DO NOTHING`

	stateOfHalf = `SELECT state FROM t_half_message WHERE tx_id = ?`

	insertHalfCheck = `INSERT INTO t_half_check (tx_id, event_id, event_type, aggregate_id, asked_at, asked_by, answer, times, owner, cause) VALUES (?,?,?,?,?,?,?,?,?,?)`
)

// Judge implements txmsg.Ledger.
func (h *Halves) Judge(ctx context.Context, q txmsg.Inquiry) (txmsg.Verdict, error) {
	waiting, cancel := context.WithTimeout(ctx, barWait)
	tx, err := h.s.Begin(waiting)
	if err != nil && waiting.Err() != nil && ctx.Err() == nil {
		cancel()
		return txmsg.Unknown, nil // somebody writes, and it may be this one
	}
	defer cancel()
	if err != nil {
		return txmsg.Unknown, err
	}
	v, err := h.judge(ctx, tx, q)
	if err != nil {
		_ = tx.Rollback()
		return txmsg.Unknown, fmt.Errorf("judge half message %s: %w", q.ID, err)
	}
	return v, nil
}

func (h *Halves) judge(ctx context.Context, tx *sql.Tx, q txmsg.Inquiry) (txmsg.Verdict, error) {
	now := h.s.now()
	if _, err := tx.ExecContext(ctx, barHalf, q.ID, halflog.Field(q.EventID), halflog.Field(q.EventType), halflog.Field(q.Key), halflog.Field(q.Topic),
		now.UnixMicro(), halflog.Cause(q.Cause)); err != nil {
		return txmsg.Unknown, err
	}
	var state string
	if err := tx.QueryRowContext(ctx, stateOfHalf, q.ID).Scan(&state); err != nil {
		return txmsg.Unknown, err
	}
	v := halflog.Verdict(state)
	if err := noteHalf(ctx, tx, txmsg.Answered{Inquiry: q, Verdict: v, At: now}); err != nil {
		return txmsg.Unknown, err
	}
	// Crash here: nothing stands, and nothing was answered. After the commit it
	// stands, and the broker asks again.
	return v, tx.Commit()
}

func noteHalf(ctx context.Context, tx *sql.Tx, a txmsg.Answered) error {
	_, err := tx.ExecContext(ctx, insertHalfCheck, halflog.Field(a.ID), halflog.Field(a.EventID), halflog.Field(a.EventType), halflog.Field(a.Key), a.At.UnixMicro(),
		halflog.AskedBy(a.ByBroker), a.Verdict.String(), halflog.Times(a.Times), a.Owner, halflog.Cause(a.Cause))
	return err
}

// Note implements txmsg.Ledger.
func (h *Halves) Note(ctx context.Context, answers []txmsg.Answered) error {
	err := h.write(ctx, func(tx *sql.Tx) error {
		for _, a := range answers {
			if err := noteHalf(ctx, tx, a); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("note %d answers to checks: %w", len(answers), err)
	}
	return nil
}

const (
	confirmHalves = `UPDATE t_half_message SET state = 'CONFIRMED', ended_at = ?, due_at = NULL, cause = ''
WHERE tx_id IN (SELECT value FROM json_each(?)) AND state IN ('COMMITTED', 'DEAD')`

	closeHalfLetters = `UPDATE t_dead_letter SET state = 'REPLAYED', closed_at = ?1, closed_by = CASE acted_by WHEN '' THEN 'txmsg' ELSE acted_by END
WHERE consumer_group = '' AND event_id IN (SELECT event_id FROM t_half_message WHERE tx_id IN (SELECT value FROM json_each(?2)) AND state = 'CONFIRMED')
AND destination IN (SELECT value FROM json_each(?2)) AND service_side = 'txmsg' AND state IN ('OPEN', 'REPLAYING')`
)

// Confirm implements txmsg.Ledger.
func (h *Halves) Confirm(ctx context.Context, ids []string) error {
	err := h.write(ctx, func(tx *sql.Tx) error {
		now := h.s.now().UnixMicro()
		if _, err := tx.ExecContext(ctx, confirmHalves, now, list(ids)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, closeHalfLetters, now, list(ids))
		return err
	})
	if err != nil {
		return fmt.Errorf("confirm %d half messages: %w", len(ids), err)
	}
	return nil
}

// write runs f in a transaction.
func (h *Halves) write(ctx context.Context, f func(tx *sql.Tx) error) error {
	tx, err := h.s.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}
