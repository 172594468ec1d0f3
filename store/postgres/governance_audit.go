package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/settlemq/settle/govern"
)

// Acts of people queue: the chain has one last entry, and an act holds its lock
// from its beginning, so that two of them never wait for each other's rows.
const (
	actAlone = `SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' t_audit', 2))`

	lastAudit = `SELECT ` + databaseNow + `, coalesce(max(a.seq), 0), coalesce(max(a.hash), '') FROM (SELECT seq, hash FROM t_audit ORDER BY seq DESC LIMIT 1) a`

	insertAudit = `INSERT INTO t_audit (seq, at, actor, action, target, reason, prev_hash, hash) VALUES ($1,$2,$3,$4,$5,$6,$7,$8)`
)

// deed is an act of a person, and the end of the audit chain in its transaction.
type deed struct {
	govern.Act
	tx   pgx.Tx
	now  time.Time
	last govern.AuditEntry
}

// act runs f in one transaction with an actor who has a name. f may be run
// more than once; what it has done before was rolled back.
func (g *Governance) act(ctx context.Context, a govern.Act, f func(d *deed) error) error {
	if a.By == "" {
		return errors.New("nobody is named as who does it")
	}
	a.By, a.Reason = clean(a.By), clean(a.Reason)
	return g.s.write(ctx, g.s.business, func(tx pgx.Tx) error {
		d := &deed{Act: a, tx: tx}
		var b pgx.Batch
		b.Queue(actAlone)
		b.Queue(lastAudit, g.s.clock()).QueryRow(func(row pgx.Row) error { return row.Scan(&d.now, &d.last.Seq, &d.last.Hash) })
		if err := tx.SendBatch(ctx, &b).Close(); err != nil {
			return fmt.Errorf("read audit chain: %w", err)
		}
		return f(d)
	})
}

// audit adds an entry to the chain.
func (d *deed) audit(ctx context.Context, action, target string) error {
	e := govern.AuditEntry{
		Seq: d.last.Seq + 1, PrevHash: d.last.Hash, At: d.now,
		Actor: d.By, Action: action, Target: clean(target), Reason: d.Reason,
	}
	e.Hash = e.Sum()
	if _, err := d.tx.Exec(ctx, insertAudit, e.Seq, e.At, e.Actor, e.Action, e.Target, e.Reason, e.PrevHash, e.Hash); err != nil {
		return fmt.Errorf("write audit entry: %w", err)
	}
	d.last = e
	return nil
}

const readAudit = `SELECT seq, at, actor, action, target, reason, prev_hash, hash FROM t_audit WHERE seq > $1 ORDER BY seq LIMIT $2`

// Audit implements govern.Audits.
func (g *Governance) Audit(ctx context.Context, after int64, limit int) ([]govern.AuditEntry, error) {
	entries := []govern.AuditEntry{}
	err := g.s.view(ctx, func(tx pgx.Tx) error {
		var e govern.AuditEntry
		var at pgtype.Timestamptz
		return each(ctx, tx, []any{&e.Seq, &at, &e.Actor, &e.Action, &e.Target, &e.Reason, &e.PrevHash, &e.Hash}, func() {
			e.At = instant(at)
			entries = append(entries, e)
		}, readAudit, after, limit)
	})
	if err != nil {
		return nil, fmt.Errorf("read audit chain: %w", err)
	}
	return entries, nil
}
