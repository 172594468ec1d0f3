package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/settlemq/settle/govern"
)

const lastAudit = `SELECT seq, hash FROM t_audit ORDER BY seq DESC LIMIT 1`

const insertAudit = `INSERT INTO t_audit (seq, at, actor, action, target, reason, prev_hash, hash) VALUES (?,?,?,?,?,?,?,?)`

// audit adds an entry to the chain, in the transaction of the act. There is
// one writer, so the last entry is the last one.
func audit(ctx context.Context, tx *sql.Tx, now time.Time, a govern.Act, action, target string) error {
	e := govern.AuditEntry{At: now, Actor: a.By, Action: action, Target: target, Reason: a.Reason}
	err := tx.QueryRowContext(ctx, lastAudit).Scan(&e.Seq, &e.PrevHash)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("read audit chain: %w", err)
	}
	e.Seq++
	e.Hash = e.Sum()
	if _, err := tx.ExecContext(ctx, insertAudit, e.Seq, e.At.UnixMicro(), e.Actor, e.Action, e.Target, e.Reason, e.PrevHash, e.Hash); err != nil {
		return fmt.Errorf("write audit entry: %w", err)
	}
	return nil
}

const readAudit = `SELECT seq, at, actor, action, target, reason, prev_hash, hash FROM t_audit WHERE seq > ? ORDER BY seq LIMIT ?`

// Audit implements govern.Audits.
func (g *Governance) Audit(ctx context.Context, after int64, limit int) ([]govern.AuditEntry, error) {
	tx, err := g.s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	entries := []govern.AuditEntry{}
	err = each(ctx, tx, func(rows *sql.Rows) error {
		var e govern.AuditEntry
		var at int64
		err := rows.Scan(&e.Seq, &at, &e.Actor, &e.Action, &e.Target, &e.Reason, &e.PrevHash, &e.Hash)
		e.At = fromMicros(at)
		entries = append(entries, e)
		return err
	}, readAudit, after, limit)
	if err != nil {
		return nil, fmt.Errorf("read audit chain: %w", err)
	}
	return entries, nil
}

// act runs f in one transaction with an actor who has a name.
func (g *Governance) act(ctx context.Context, a govern.Act, f func(tx *sql.Tx, now time.Time) error) error {
	if a.By == "" {
		return errors.New("nobody is named as who does it")
	}
	tx, err := g.s.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := f(tx, g.s.now()); err != nil {
		return err
	}
	return tx.Commit()
}
