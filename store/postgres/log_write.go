package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

const (
	// What holds for one transaction: a client that was stopped, or a lock that
	// is not given, must not outlast the lease. The commit reaches the disk, and
	// a synchronous standby, also where the database says otherwise.
	writeSettings = `SELECT set_config('jit', 'off', true), set_config('statement_timeout', $1, true), set_config('lock_timeout', $2, true),
 set_config('idle_in_transaction_session_timeout', $3, true), set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true)`

	// fence fails by a division by zero for anybody but the present leader, so
	// that it ends a transaction which is sent in one piece. It holds the lease
	// for share: a takeover waits for the transaction, or the transaction sees
	// the takeover. It stands last, so that a process which is stopped while it
	// sends has not locked it yet. Nor does it let one commit that goes by what it
	// has read of another run of a server.
	fence = `SELECT 1 / (SELECT count(*) FROM (SELECT 1 FROM t_outbox_lease WHERE lane = $1 AND owner = $2 AND epoch = $3 AND NOT clean
 AND coalesce(pg_postmaster_start_time() = $4, true) FOR SHARE) leader)`
)

// settings are the arguments of writeSettings: everything ends before half the
// lease has passed.
func (l *Log) settings() []any {
	statement, lock, idle := l.s.cfg.StatementTimeout, l.s.cfg.LockTimeout, l.s.cfg.IdleTimeout
	if half := l.holding().ttl / 2; half > 0 {
		statement, lock, idle = min(statement, half), min(lock, half), min(idle, half)
	}
	return []any{ms(statement), ms(lock), ms(idle)}
}

// leaderEpoch is what the fence compares with: nobody's when the lease is not held.
func leaderEpoch(lease relay.Lease) int64 {
	if !lease.Held {
		return -1
	}
	return lease.Epoch
}

// send runs a batch as one transaction that only the leader can commit. The
// server has all of it at once and waits for nobody.
func (l *Log) send(ctx context.Context, lease relay.Lease, queue func(*pgx.Batch)) error {
	var b pgx.Batch
	b.Queue(writeSettings, l.settings()...)
	queue(&b)
	b.Queue(fence, lease.Lane, lease.Owner, leaderEpoch(lease), l.serverRun())
	err := l.s.own.SendBatch(ctx, &b).Close()
	l.s.left(err)
	return fenced(err)
}

// write runs f in a transaction that only the leader can commit, for writes
// that go by what they read.
func (l *Log) write(ctx context.Context, lease relay.Lease, f func(tx pgx.Tx) error) error {
	err := pgx.BeginTxFunc(ctx, l.s.own, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, writeSettings, l.settings()...); err != nil {
			return err
		}
		if err := f(tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, fence, lease.Lane, lease.Owner, leaderEpoch(lease), l.serverRun())
		return err
	})
	l.s.left(err)
	return fenced(err)
}

func fenced(err error) error {
	if hasState(err, stateDivision) {
		return settle.ErrFenced
	}
	return explain(err)
}

// clean makes what a broker or a library has said fit for a column of text.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
