package mysql

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

// fence finds the present leader's lease only, and holds it for share: a
// takeover waits for the transaction, or the transaction sees the takeover. It
// stands last, so that a process which is stopped while it writes has not locked
// it yet; the server ends the session of one that is stopped behind it. Nor does
// it let one commit that goes by what it has read of another run of a server.
const fence = `SELECT coalesce(@settle_run, '') FROM t_outbox_lease WHERE lane = ? AND owner = ? AND epoch = ? AND NOT clean LOCK IN SHARE MODE`

// leaderEpoch is what the fence compares with: nobody's when the lease is not held.
func leaderEpoch(lease relay.Lease) int64 {
	if !lease.Held {
		return -1
	}
	return lease.Epoch
}

// write runs f in a transaction that only the leader can commit.
func (l *Log) write(ctx context.Context, lease relay.Lease, f func(tx *sql.Tx) error) error {
	tx, err := l.s.own.BeginTx(ctx, &readCommitted)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := f(tx); err != nil {
		return err
	}
	var run string
	err = tx.QueryRowContext(ctx, fence, lease.Lane, lease.Owner, leaderEpoch(lease)).Scan(&run)
	if loaded := l.serverRun(); errors.Is(err, sql.ErrNoRows) || err == nil && loaded != "" && run != loaded {
		return settle.ErrFenced
	}
	if err != nil {
		return err
	}
	return tx.Commit()
}

// affected is how many rows a statement has matched.
func affected(r sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// clean makes what a broker or a library has said fit for a column of text.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// rowsAtOnce is how many rows one statement of the store writes.
const rowsAtOnce = 500

// times repeats a text, with commas between.
func times(n int, s string) string { return s + strings.Repeat(","+s, n-1) }
