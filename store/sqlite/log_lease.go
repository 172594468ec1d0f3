package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

// relayScope is what the renewals of relays are filed under in the lease file.
const relayScope = "relay"

// Lead implements relay.Store. A renewal touches the lease file only; a
// takeover locks the service's file first, then looks at the renewals, then
// raises the epoch, so it can't take what was renewed meanwhile.
func (l *Log) Lead(ctx context.Context, owner string, lane int, ttl time.Duration) (relay.Lease, error) {
	if owner == "" || ttl <= 0 {
		return relay.Lease{}, fmt.Errorf("lead lane %d: want an owner and a lease time, got %q and %s", lane, owner, ttl)
	}
	lease, err := l.lead(ctx, relay.Lease{Owner: owner, Lane: lane, Expires: l.s.now().Add(ttl)})
	if err != nil {
		return relay.Lease{}, fmt.Errorf("lead lane %d: %w", lane, err)
	}
	return lease, nil
}

func (l *Log) lead(ctx context.Context, want relay.Lease) (relay.Lease, error) {
	h := l.holding()
	if h.lease.Held && h.lease.Owner == want.Owner && h.lease.Lane == want.Lane {
		h.lease.Expires = want.Expires
		ok, err := l.renew(ctx, h.lease)
		if err != nil {
			return relay.Lease{}, err
		}
		if ok {
			l.hold(h)
			return h.lease, nil
		}
		l.hold(holding{})
	}
	free, err := l.free(ctx, l.s.lease, want)
	if err != nil || !free {
		return relay.Lease{Owner: want.Owner, Lane: want.Lane}, err
	}
	return l.takeOver(ctx, want)
}

const renewLease = `UPDATE settle_renewal SET expires_at = ? WHERE scope = ? AND name = ? AND owner = ? AND epoch = ?`

func (l *Log) renew(ctx context.Context, lease relay.Lease) (bool, error) {
	return affected(l.s.lease.ExecContext(ctx, renewLease, lease.Expires.UnixMicro(), relayScope, laneName(lease.Lane), lease.Owner, lease.Epoch))
}

func laneName(lane int) string { return strconv.Itoa(lane) }

const readRenewal = `SELECT owner, epoch, expires_at FROM settle_renewal WHERE scope = ? AND name = ?`

type renewal struct {
	owner   string
	epoch   int64
	expires time.Time
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func readLease(ctx context.Context, db querier, lane int) (renewal, error) {
	var r renewal
	var expires int64
	err := db.QueryRowContext(ctx, readRenewal, relayScope, laneName(lane)).Scan(&r.owner, &r.epoch, &expires)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return renewal{}, err
	}
	r.expires = fromMicros(expires)
	return r, nil
}

const shortenLease = `UPDATE settle_renewal SET expires_at = ? WHERE scope = ? AND name = ? AND owner = ? AND epoch = ? AND expires_at > ?`

// free reports whether no other owner's lease runs. One that was written
// before the clock was set back is cut to a lease time from now: an owner that
// lives renews it, that of one that is gone runs out.
func (l *Log) free(ctx context.Context, db querier, want relay.Lease) (bool, error) {
	r, err := readLease(ctx, db, want.Lane)
	if err != nil || r.owner == want.Owner || !l.s.now().Before(r.expires) {
		return err == nil, err
	}
	if r.expires.Sub(want.Expires) > outboxlog.Leap {
		_, err = db.ExecContext(ctx, shortenLease, want.Expires.UnixMicro(), relayScope, laneName(want.Lane), r.owner, r.epoch, want.Expires.Add(outboxlog.Leap).UnixMicro())
	}
	return false, err
}

// takeOver writes the renewal before it commits the new epoch. Crash here: the
// lease is held by an owner that is gone and runs out by itself.
func (l *Log) takeOver(ctx context.Context, want relay.Lease) (relay.Lease, error) {
	tx, err := l.s.Begin(ctx)
	if err != nil {
		return relay.Lease{}, err
	}
	defer func() { _ = tx.Rollback() }()
	last, err := readLeader(ctx, tx, want.Lane)
	if err != nil {
		return relay.Lease{}, err
	}
	renewals, err := l.s.lease.BeginTx(ctx, nil)
	if err != nil {
		return relay.Lease{}, err
	}
	defer func() { _ = renewals.Rollback() }()
	free, err := l.free(ctx, renewals, want)
	if err != nil || !free {
		return relay.Lease{Owner: want.Owner, Lane: want.Lane}, err
	}
	r, err := readLease(ctx, renewals, want.Lane)
	if err != nil {
		return relay.Lease{}, err
	}
	last.Expires = r.expires
	// The file may have been restored from a copy older than the renewal.
	want.Held, want.Epoch, want.Deaths = true, max(last.Epoch, r.epoch)+1, last.SuccessorDeaths(want.Expires.Sub(l.s.now()))
	if err := l.install(ctx, tx, renewals, want); err != nil {
		return relay.Lease{}, err
	}
	if err := errors.Join(renewals.Commit(), tx.Commit()); err != nil {
		return relay.Lease{}, err
	}
	l.hold(holding{lease: want})
	return want, nil
}

const (
	installLeader = `INSERT INTO t_outbox_lease (lane, owner, epoch, clean, deaths, taken_at) VALUES (?,?,?,0,?,?)
ON CONFLICT (lane) DO UPDATE SET owner = excluded.owner, epoch = excluded.epoch, clean = 0, deaths = excluded.deaths, taken_at = excluded.taken_at`
	installRenewal = `INSERT INTO settle_renewal (scope, name, owner, epoch, expires_at) VALUES (?,?,?,?,?)
ON CONFLICT (scope, name) DO UPDATE SET owner = excluded.owner, epoch = excluded.epoch, expires_at = excluded.expires_at`
)

func (l *Log) install(ctx context.Context, tx, renewals *sql.Tx, lease relay.Lease) error {
	if _, err := tx.ExecContext(ctx, installLeader, lease.Lane, lease.Owner, lease.Epoch, lease.Deaths, l.s.now().UnixMicro()); err != nil {
		return err
	}
	_, err := renewals.ExecContext(ctx, installRenewal, relayScope, laneName(lease.Lane), lease.Owner, lease.Epoch, lease.Expires.UnixMicro())
	return err
}

const readLeaderRow = `SELECT owner, epoch, clean, deaths, taken_at FROM t_outbox_lease WHERE lane = ?`

// readLeader reads who leads but for the renewals, which are in the lease file.
func readLeader(ctx context.Context, tx *sql.Tx, lane int) (outboxlog.Leader, error) {
	var l outboxlog.Leader
	var taken int64
	err := tx.QueryRowContext(ctx, readLeaderRow, lane).Scan(&l.Owner, &l.Epoch, &l.Clean, &l.Deaths, &taken)
	l.Taken = fromMicros(taken)
	if errors.Is(err, sql.ErrNoRows) {
		return outboxlog.Leader{}, nil
	}
	return l, err
}

// fence refuses a write of anybody but the present leader. It holds until tx
// ends: a takeover needs the file's write lock too.
func fence(ctx context.Context, tx *sql.Tx, lease relay.Lease) error {
	now, err := readLeader(ctx, tx, lease.Lane)
	if err != nil {
		return err
	}
	if !lease.Held || now.Epoch != lease.Epoch || now.Owner != lease.Owner || now.Clean {
		return settle.ErrFenced
	}
	return nil
}

const (
	resignLeader = `UPDATE t_outbox_lease SET clean = 1 WHERE lane = ?`
	dropRenewed  = `DELETE FROM settle_renewal WHERE scope = ? AND name = ? AND owner = ? AND epoch = ?`
)

// Resign implements relay.Store.
//
// Crash here: between the two writes the successor waits for the lease to run
// out, but knows that the end was clean.
func (l *Log) Resign(ctx context.Context, lease relay.Lease) error {
	l.hold(holding{})
	err := l.write(ctx, lease, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, resignLeader, lease.Lane)
		return err
	})
	if err == nil {
		_, err = l.s.lease.ExecContext(ctx, dropRenewed, relayScope, laneName(lease.Lane), lease.Owner, lease.Epoch)
	}
	if err != nil {
		return fmt.Errorf("resign lane %d: %w", lease.Lane, err)
	}
	return nil
}

// write runs f in a transaction that only the leader can commit.
func (l *Log) write(ctx context.Context, lease relay.Lease, f func(context.Context, *sql.Tx) error) error {
	tx, err := l.s.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	// The statements are short; a context that can end costs a goroutine for
	// each. One that has ended ends the transaction before its commit.
	if err := fence(context.WithoutCancel(ctx), tx, lease); err != nil {
		return err
	}
	if err := f(context.WithoutCancel(ctx), tx); err != nil {
		return err
	}
	return tx.Commit()
}
