package mysql

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/settlemq/settle/govern"
)

const (
	// Acts of people queue: the chain has one last entry, and an act holds the
	// turn from its beginning, so that two of them never wait for each other's
	// rows.
	takeTurn = `SELECT one FROM t_audit_turn FOR UPDATE`

	lastAudit = `SELECT ` + databaseNow + `, coalesce((SELECT max(seq) FROM t_audit), 0), coalesce((SELECT hash FROM t_audit ORDER BY seq DESC LIMIT 1), '')`

	insertAudit = `INSERT INTO t_audit (seq, at, actor, action, target, reason, prev_hash, hash) VALUES (?,?,?,?,?,?,?,?)`
)

// deed is an act of a person, and the end of the audit chain in its transaction.
type deed struct {
	govern.Act
	tx   *sql.Tx
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
	err := g.actOnce(ctx, a, f)
	for try := 1; faultOf(err) == faultConflict && pause(ctx, try); try++ {
		err = g.actOnce(ctx, a, f)
	}
	return explain(err)
}

// actSession bounds an act: one whose process was stopped must not hold the
// turn for ever. What doesn't fit a column is an error, whatever the server's
// default is, because the chain's hash covers it.
const actSession = `SET SESSION sql_mode = ` + strictly + `, innodb_lock_wait_timeout = %s, wait_timeout = %s`

func (g *Governance) actOnce(ctx context.Context, a govern.Act, f func(d *deed) error) error {
	conn, err := g.s.db.Conn(ctx)
	if err != nil {
		return err
	}
	// The business must not get a session with other settings than it had, so
	// this one ends.
	defer func() { _ = conn.Raw(func(any) error { return sqldriver.ErrBadConn }) }()
	if _, err := conn.ExecContext(ctx, fmt.Sprintf(actSession, seconds(g.s.cfg.LockTimeout), seconds(g.s.cfg.IdleTimeout))); err != nil {
		return err
	}
	tx, err := conn.BeginTx(ctx, &readCommitted)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	d := &deed{Act: a, tx: tx}
	if err := d.begin(ctx, g.s.clock()); err != nil {
		return err
	}
	if err := f(d); err != nil {
		return err
	}
	return tx.Commit()
}

func (d *deed) begin(ctx context.Context, clock any) error {
	var one int
	if err := d.tx.QueryRowContext(ctx, takeTurn).Scan(&one); errors.Is(err, sql.ErrNoRows) {
		return errors.New("t_audit_turn is empty; `settle doctor` says what is missing")
	} else if err != nil {
		return fmt.Errorf("wait for other people's acts: %w", err)
	}
	var now timeColumn
	if err := d.tx.QueryRowContext(ctx, lastAudit, clock).Scan(&now, &d.last.Seq, &d.last.Hash); err != nil {
		return fmt.Errorf("read audit chain: %w", err)
	}
	d.now = now.Time
	return nil
}

// do runs a statement and returns how many rows it has matched.
func (d *deed) do(ctx context.Context, query string, args ...any) (int64, error) {
	return affected(d.tx.ExecContext(ctx, query, args...))
}

// audit adds an entry to the chain.
func (d *deed) audit(ctx context.Context, action, target string) error {
	e := govern.AuditEntry{
		Seq: d.last.Seq + 1, PrevHash: d.last.Hash, At: d.now,
		Actor: d.By, Action: action, Target: clean(target), Reason: d.Reason,
	}
	e.Hash = e.Sum()
	if _, err := d.do(ctx, insertAudit, e.Seq, e.At, e.Actor, e.Action, e.Target, e.Reason, e.PrevHash, e.Hash); err != nil {
		return fmt.Errorf("write audit entry: %w", err)
	}
	d.last = e
	return nil
}

const readAudit = `SELECT seq, at, actor, action, target, reason, prev_hash, hash FROM t_audit WHERE seq > ? ORDER BY seq LIMIT ?`

// Audit implements govern.Audits.
func (g *Governance) Audit(ctx context.Context, after int64, limit int) ([]govern.AuditEntry, error) {
	entries := []govern.AuditEntry{}
	err := snapshot(ctx, g.s.reader, func(tx *sql.Tx) error {
		var e govern.AuditEntry
		var at timeColumn
		return each(ctx, tx, []any{&e.Seq, &at, &e.Actor, &e.Action, &e.Target, &e.Reason, &e.PrevHash, &e.Hash}, func() {
			e.At = at.Time
			entries = append(entries, e)
		}, readAudit, after, limit)
	})
	if err != nil {
		return nil, fmt.Errorf("read audit chain: %w", explain(err))
	}
	return entries, nil
}
