package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/settlemq/settle/store/halflog"
	"github.com/settlemq/settle/txmsg"
)

// Halves keeps the records of half messages.
type Halves struct {
	s *Store
}

// Halves returns the database as what transactional messages are kept in.
func (s *Store) Halves() *Halves { return &Halves{s: s} }

var _ txmsg.Store[*sql.Tx] = (*Halves)(nil)

const readScope = `SELECT scope FROM t_half_scope WHERE one = 1`

// Scope implements txmsg.Ledger.
func (h *Halves) Scope(ctx context.Context) (scope string, err error) {
	if err := h.s.own.QueryRowContext(ctx, readScope).Scan(&scope); err != nil {
		return "", fmt.Errorf("read which database it is: %w", explain(err))
	}
	return scope, nil
}

const insertHalf = `INSERT INTO t_half_message (tx_id, state, event_id, event_type, aggregate_id, biz_key, trace_id, topic, handle, event, payload, recorded_at, due_at, cause)
VALUES (?,'COMMITTED',?,?,?,?,?,?,?,?,?,` + databaseNow + `,` + databaseNow + ` + INTERVAL ? MICROSECOND,'')`

// Transact implements txmsg.Store.
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
	e, biz := r.Event, r.Event.BizKey
	if biz == e.AggregateID {
		biz = ""
	}
	if _, err := tx.ExecContext(ctx, insertHalf, r.ID, e.ID, e.Type, e.AggregateID, orNull(biz), orNull(e.TraceID), e.Topic, string(r.Handle), event, payload,
		h.s.clock(), h.s.clock(), r.SweepAfter.Microseconds()); err != nil {
		return txmsg.RolledBack, fmt.Errorf("insert record of half message %s: %w", r.ID, explain(err))
	}
	if err := f(ctx, tx); err != nil {
		return txmsg.RolledBack, err
	}
	if err := tx.Commit(); err != nil {
		return txmsg.InDoubt, fmt.Errorf("commit half message %s: %w", r.ID, explain(err))
	}
	return txmsg.Committed, nil
}

const (
	// Who holds the id is not waited for: its transaction is open.
	probeHalf = `SELECT state FROM t_half_message WHERE tx_id = ? FOR UPDATE NOWAIT`

	barHalf = `INSERT INTO t_half_message (tx_id, state, event_id, event_type, aggregate_id, topic, handle, recorded_at, ended_at, cause)
VALUES (?,'ROLLED_BACK',?,?,?,?,'',` + databaseNow + `,` + databaseNow + `,?)`

	insertHalfCheck = `INSERT INTO t_half_check (tx_id, event_id, event_type, aggregate_id, asked_at, asked_by, answer, times, owner, cause)
VALUES (?,?,?,?,coalesce(?, UTC_TIMESTAMP(6)),?,?,?,?,?)`
)

// Judge implements txmsg.Ledger. Its own commit is behind the record's in the
// log of the server, so that what it answers is durable with it.
func (h *Halves) Judge(ctx context.Context, q txmsg.Inquiry) (v txmsg.Verdict, err error) {
	err = writeOnce(ctx, h.s.own, func(tx *sql.Tx) error {
		var state string
		err := tx.QueryRowContext(ctx, probeHalf, q.ID).Scan(&state)
		if errors.Is(err, sql.ErrNoRows) {
			state = halflog.StateRolledBack
			_, err = tx.ExecContext(ctx, barHalf, q.ID, halflog.Field(q.EventID), halflog.Field(q.EventType), halflog.Field(q.Key), halflog.Field(q.Topic),
				h.s.clock(), h.s.clock(), halflog.Cause(q.Cause))
		}
		if err != nil {
			return err
		}
		v = halflog.Verdict(state)
		// Crash here: nothing stands, and nothing was answered. After the commit it
		// stands, and the broker asks again.
		return noteHalf(ctx, tx, txmsg.Answered{Inquiry: q, Verdict: v}, h.s.clock())
	})
	// One that inserts between the probe and the bar is in the way of it: it is
	// waited for, and what came of it is asked another time.
	if hasCode(err, codeLockWait) || hasCode(err, codeNoWait) || hasCode(err, codeDuplicate) {
		return txmsg.Unknown, nil
	}
	if err != nil {
		h.s.left(err)
		return txmsg.Unknown, fmt.Errorf("judge half message %s: %w", q.ID, explain(err))
	}
	return v, nil
}

func noteHalf(ctx context.Context, tx *sql.Tx, a txmsg.Answered, at any) error {
	_, err := tx.ExecContext(ctx, insertHalfCheck, halflog.Field(a.ID), halflog.Field(a.EventID), halflog.Field(a.EventType), halflog.Field(a.Key), at,
		halflog.AskedBy(a.ByBroker), a.Verdict.String(), halflog.Times(a.Times), a.Owner, halflog.Cause(a.Cause))
	return err
}

// Note implements txmsg.Ledger.
func (h *Halves) Note(ctx context.Context, answers []txmsg.Answered) error {
	err := h.s.write(ctx, h.s.own, func(tx *sql.Tx) error {
		for _, a := range answers {
			if err := noteHalf(ctx, tx, a, a.At.UTC()); err != nil {
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
	confirmHalves = `UPDATE t_half_message SET state = 'CONFIRMED', ended_at = ` + databaseNow + `, due_at = NULL, cause = ''
WHERE tx_id IN (%s) AND state IN ('COMMITTED', 'DEAD')`

	closeHalfLetters = `UPDATE t_dead_letter SET state = 'REPLAYED', closed_at = ` + databaseNow + `, closed_by = CASE acted_by WHEN '' THEN 'txmsg' ELSE acted_by END
WHERE consumer_group = '' AND event_id IN (SELECT event_id FROM t_half_message WHERE tx_id IN (%s) AND state = 'CONFIRMED')
AND destination IN (%s) AND service_side = 'txmsg' AND state IN ('OPEN', 'REPLAYING')`
)

// Confirm implements txmsg.Ledger.
func (h *Halves) Confirm(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	marks, args := strings.Repeat(",?", len(ids))[1:], list(ids)
	err := h.s.write(ctx, h.s.own, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, fmt.Sprintf(confirmHalves, marks), slices.Concat([]any{h.s.clock()}, args)...); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, fmt.Sprintf(closeHalfLetters, marks, marks), slices.Concat([]any{h.s.clock()}, args, args)...)
		return err
	})
	if err != nil {
		return fmt.Errorf("confirm %d half messages: %w", len(ids), err)
	}
	return nil
}
