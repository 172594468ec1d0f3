package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/settlemq/settle/store/halflog"
	"github.com/settlemq/settle/txmsg"
)

// Halves keeps the records of half messages.
type Halves struct {
	s *Store
}

// Halves returns the schema as what transactional messages are kept in, with
// local transactions of database/sql.
func (s *Store) Halves() *Halves { return &Halves{s: s} }

// PgxHalves is Halves with local transactions of pgx itself.
type PgxHalves struct{ *Halves }

// PgxHalves returns the schema as what transactional messages are kept in, with
// local transactions of pgx itself.
func (s *Store) PgxHalves() PgxHalves { return PgxHalves{s.Halves()} }

var (
	_ txmsg.Store[*sql.Tx] = (*Halves)(nil)
	_ txmsg.Store[pgx.Tx]  = PgxHalves{}
)

const readScope = `SELECT scope FROM t_half_scope WHERE one = 1`

// Scope implements txmsg.Ledger.
func (h *Halves) Scope(ctx context.Context) (scope string, err error) {
	if err := h.s.own.QueryRow(ctx, readScope).Scan(&scope); err != nil {
		return "", fmt.Errorf("read which database it is: %w", explain(err))
	}
	return scope, nil
}

// durably is an empty text. A commit whose role or database would not wait for
// the disk does: what was told to the broker must not be lost with the server.
const durably = `substr(CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) ELSE '' END, 1, 0)`

const insertHalf = `INSERT INTO t_half_message (tx_id, state, event_id, event_type, aggregate_id, biz_key, trace_id, topic, handle, event, payload, recorded_at, due_at, cause)
SELECT $2::text, 'COMMITTED', $3::text, $4::text, $5::text, $6::text, $7::text, $8::text, $9::text, $10::bytea, $11::bytea, n.at, n.at + $12::bigint * interval '1 microsecond', ` + durably + `
FROM (SELECT ` + databaseNow + ` AS at) n`

// insertArgs are those of insertHalf.
func (h *Halves) insertArgs(r txmsg.Record) ([]any, error) {
	event, payload, err := halflog.Kept(r.Event)
	if err != nil {
		return nil, err
	}
	e, biz := r.Event, r.Event.BizKey
	if biz == e.AggregateID {
		biz = ""
	}
	return []any{h.s.clock(), r.ID, e.ID, e.Type, e.AggregateID, optional(biz), optional(e.TraceID), e.Topic, string(r.Handle), event, payload, r.SweepAfter.Microseconds()}, nil
}

// Transact implements txmsg.Store.
func (h *Halves) Transact(ctx context.Context, r txmsg.Record, f func(ctx context.Context, tx *sql.Tx) error) (txmsg.Outcome, error) {
	args, err := h.insertArgs(r)
	if err != nil {
		return txmsg.RolledBack, err
	}
	tx, err := h.s.Begin(ctx)
	if err != nil {
		return txmsg.RolledBack, err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, insertHalf, args...); err != nil {
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

// Transact implements txmsg.Store.
func (h PgxHalves) Transact(ctx context.Context, r txmsg.Record, f func(ctx context.Context, tx pgx.Tx) error) (txmsg.Outcome, error) {
	args, err := h.insertArgs(r)
	if err != nil {
		return txmsg.RolledBack, err
	}
	tx, err := h.s.business.Begin(ctx)
	if err != nil {
		return txmsg.RolledBack, fmt.Errorf("begin transaction: %w", explain(err))
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, insertHalf, args...); err != nil {
		return txmsg.RolledBack, fmt.Errorf("insert record of half message %s: %w", r.ID, explain(err))
	}
	if err := f(ctx, tx); err != nil {
		return txmsg.RolledBack, err
	}
	if err := tx.Commit(ctx); err != nil {
		return txmsg.InDoubt, fmt.Errorf("commit half message %s: %w", r.ID, explain(err))
	}
	return txmsg.Committed, nil
}

// barWait is how long a check waits for a transaction that is open.
const barWait = time.Second

const (
	waitForHalf = `SELECT set_config('lock_timeout', $1, true)`

	barHalf = `INSERT INTO t_half_message (tx_id, state, event_id, event_type, aggregate_id, topic, recorded_at, ended_at, cause)
SELECT $2::text, 'ROLLED_BACK', $3::text, $4::text, $5::text, $6::text, n.at, n.at, $7::text FROM (SELECT ` + databaseNow + ` AS at) n ON CONFLICT (tx_id) DO NOTHING`

	stateOfHalf = `SELECT state, ` + databaseNow + `, ` + durably + ` FROM t_half_message WHERE tx_id = $2`

	insertHalfCheck = `INSERT INTO t_half_check (tx_id, event_id, event_type, aggregate_id, asked_at, asked_by, answer, times, owner, cause) VALUES ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10)`
)

// Judge implements txmsg.Ledger. Its own commit is behind the record's in the
// log of the server, so that what it answers is durable with it.
func (h *Halves) Judge(ctx context.Context, q txmsg.Inquiry) (v txmsg.Verdict, err error) {
	err = h.s.writeOnce(ctx, h.s.own, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, waitForHalf, ms(min(barWait, h.s.cfg.LockTimeout))); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, barHalf, h.s.clock(), q.ID, halflog.Field(q.EventID), halflog.Field(q.EventType), halflog.Field(q.Key), halflog.Field(q.Topic),
			halflog.Cause(q.Cause)); err != nil {
			return err
		}
		var state, durably string
		var now time.Time
		if err := tx.QueryRow(ctx, stateOfHalf, h.s.clock(), q.ID).Scan(&state, &now, &durably); err != nil {
			return err
		}
		v = halflog.Verdict(state)
		// Crash here: nothing stands, and nothing was answered. After the commit it
		// stands, and the broker asks again.
		return noteHalf(ctx, tx, txmsg.Answered{Inquiry: q, Verdict: v, At: now})
	})
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == stateLockTimeout {
		return txmsg.Unknown, nil
	}
	if err != nil {
		h.s.left(err)
		return txmsg.Unknown, fmt.Errorf("judge half message %s: %w", q.ID, explain(err))
	}
	return v, nil
}

func noteHalf(ctx context.Context, tx pgx.Tx, a txmsg.Answered) error {
	_, err := tx.Exec(ctx, insertHalfCheck, halflog.Field(a.ID), halflog.Field(a.EventID), halflog.Field(a.EventType), halflog.Field(a.Key), a.At,
		halflog.AskedBy(a.ByBroker), a.Verdict.String(), halflog.Times(a.Times), a.Owner, halflog.Cause(a.Cause))
	return err
}

// Note implements txmsg.Ledger.
func (h *Halves) Note(ctx context.Context, answers []txmsg.Answered) error {
	err := h.s.write(ctx, h.s.own, func(tx pgx.Tx) error {
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
	confirmHalves = `UPDATE t_half_message SET state = 'CONFIRMED', ended_at = ` + databaseNow + `, due_at = NULL, cause = ''
WHERE tx_id = ANY($2::text[]) AND state IN ('COMMITTED', 'DEAD')`

	closeHalfLetters = `UPDATE t_dead_letter SET state = 'REPLAYED', closed_at = ` + databaseNow + `, closed_by = CASE acted_by WHEN '' THEN 'txmsg' ELSE acted_by END
WHERE consumer_group = '' AND event_id IN (SELECT event_id FROM t_half_message WHERE tx_id = ANY($2::text[]) AND state = 'CONFIRMED')
AND destination = ANY($2::text[]) AND service_side = 'txmsg' AND state IN ('OPEN', 'REPLAYING')`
)

// Confirm implements txmsg.Ledger.
func (h *Halves) Confirm(ctx context.Context, ids []string) error {
	err := h.s.write(ctx, h.s.own, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, confirmHalves, h.s.clock(), ids); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, closeHalfLetters, h.s.clock(), ids)
		return err
	})
	if err != nil {
		return fmt.Errorf("confirm %d half messages: %w", len(ids), err)
	}
	return nil
}
