package mysql

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

// relayScope is what the renewals of relays are filed under.
const relayScope = "relay"

// Lead implements relay.Store. The database's clock decides. A renewal is a row
// of its own and holds the lease for share; a takeover locks the lease first,
// then looks at the renewals, then raises the epoch, so it can't take what was
// renewed meanwhile.
func (l *Log) Lead(ctx context.Context, owner string, lane int, ttl time.Duration) (relay.Lease, error) {
	if owner == "" || ttl <= 0 {
		return relay.Lease{}, fmt.Errorf("lead lane %d: want an owner and a lease time, got %q and %s", lane, owner, ttl)
	}
	lease, err := l.lead(ctx, relay.Lease{Owner: owner, Lane: lane, Expires: l.s.now().Add(ttl)}, ttl)
	if err != nil {
		l.s.left(err)
		return relay.Lease{}, fmt.Errorf("lead lane %d: %w", lane, explain(err))
	}
	return lease, nil
}

func (l *Log) lead(ctx context.Context, want relay.Lease, ttl time.Duration) (relay.Lease, error) {
	h := l.holding()
	if h.lease.Held && h.lease.Owner == want.Owner && h.lease.Lane == want.Lane {
		h.lease.Expires = want.Expires
		ok, err := l.renew(ctx, h.lease, ttl)
		if err != nil {
			return relay.Lease{}, err
		}
		if ok {
			l.hold(h)
			return h.lease, nil
		}
		l.hold(holding{})
	}
	not := relay.Lease{Owner: want.Owner, Lane: want.Lane}
	lane, err := laneNow(ctx, l.s.own, want.Lane)
	if err == nil && !lane.begun && lane.ready {
		lane.begun, err = l.begin(ctx, lane.Generation)
	}
	if not.Early, not.Ended = !lane.begun, lane.ended; err != nil || not.Early || not.Ended {
		return not, err
	}
	last, err := l.readLeader(ctx, l.s.own, want.Lane)
	if err == nil && last.Epoch == 0 {
		// The first leader finds no row to lock, and the second of two waits for it
		// there. By itself, because it would hold a lock for share.
		_, err = l.s.own.ExecContext(ctx, makeLease, want.Lane)
	}
	if err != nil || !last.Free(want.Owner) && !last.Leapt(ttl) {
		return not, err
	}
	return l.takeOver(ctx, want, lane.Lane, ttl)
}

// databaseNow is the time that leases go by: the database's, or that of a clock
// which was given.
const databaseNow = `coalesce(CAST(? AS DATETIME(6)), UTC_TIMESTAMP(6))`

// clock is the argument of databaseNow.
func (s *Store) clock() any {
	if s.cfg.Clock == nil {
		return nil
	}
	return s.cfg.Clock().UTC()
}

const renewLease = `INSERT INTO settle_renewal (scope, name, epoch, owner, expires_at)
SELECT ?, ?, epoch, owner, ` + databaseNow + ` + INTERVAL ? MICROSECOND FROM t_outbox_lease
WHERE lane = ? AND owner = ? AND epoch = ? AND NOT clean LOCK IN SHARE MODE`

func (l *Log) renew(ctx context.Context, lease relay.Lease, ttl time.Duration) (bool, error) {
	n, err := affected(l.s.own.ExecContext(ctx, renewLease, relayScope, laneName(lease.Lane), l.s.clock(), ttl.Microseconds(), lease.Lane, lease.Owner, lease.Epoch))
	return n == 1, err
}

func laneName(lane int) string { return strconv.Itoa(lane) }

const (
	newestRenewal = `SELECT l.owner, l.epoch, l.clean, l.deaths, l.taken_at,
 (SELECT r.expires_at FROM settle_renewal r WHERE r.scope = ? AND r.name = ? AND r.epoch = l.epoch ORDER BY r.renewal_no DESC LIMIT 1), ` + databaseNow + `
FROM t_outbox_lease l WHERE l.lane = ?`

	lockLease = `SELECT ended FROM t_outbox_lease WHERE lane = ? FOR UPDATE`
)

func (l *Log) readLeader(ctx context.Context, db querier, lane int) (outboxlog.Leader, error) {
	var is outboxlog.Leader
	var taken, expires, now timeColumn
	err := db.QueryRowContext(ctx, newestRenewal, relayScope, laneName(lane), l.s.clock(), lane).
		Scan(&is.Owner, &is.Epoch, &is.Clean, &is.Deaths, &taken, &expires, &now)
	if errors.Is(err, sql.ErrNoRows) {
		return outboxlog.Leader{}, nil
	}
	is.Taken, is.Expires, is.Now = taken.Time, expires.Time, now.Time
	return is, err
}

const (
	// A table that was emptied must not give an epoch again.
	highestEpoch = `SELECT greatest(?, coalesce((SELECT epoch FROM t_outbox_checkpoint WHERE lane = ? ORDER BY epoch DESC LIMIT 1), 0),
 coalesce((SELECT max(epoch) FROM settle_renewal WHERE scope = ? AND name = ?), 0))`

	makeLease = `INSERT IGNORE INTO t_outbox_lease (lane, owner, epoch, clean, deaths, taken_at) VALUES (?, '', 0, true, 0, UTC_TIMESTAMP(6))`

	installLeader = `UPDATE t_outbox_lease SET owner = ?, epoch = ?, clean = false, deaths = ?, taken_at = ` + databaseNow + ` WHERE lane = ?`

	installRenewal = `INSERT INTO settle_renewal (scope, name, epoch, owner, expires_at) VALUES (?, ?, ?, ?, ` + databaseNow + ` + INTERVAL ? MICROSECOND)`
)

func (l *Log) takeOver(ctx context.Context, want relay.Lease, lane relay.Lane, ttl time.Duration) (relay.Lease, error) {
	tx, err := l.s.own.BeginTx(ctx, &readCommitted)
	if err != nil {
		return relay.Lease{}, err
	}
	defer func() { _ = tx.Rollback() }()
	if err := tx.QueryRowContext(ctx, lockLease, want.Lane).Scan(&want.Ended); err != nil || want.Ended {
		return want, err
	}
	last, err := l.readLeader(ctx, tx, want.Lane)
	if err != nil {
		return relay.Lease{}, err
	}
	name := laneName(want.Lane)
	if !last.Free(want.Owner) {
		// A lease that was written before the clock was set back is cut to a lease
		// time from now: an owner that lives renews it, that of one that is gone
		// runs out.
		if last.Leapt(ttl) {
			if _, err := tx.ExecContext(ctx, installRenewal, relayScope, name, last.Epoch, last.Owner, l.s.clock(), ttl.Microseconds()); err != nil {
				return relay.Lease{}, err
			}
		}
		return want, tx.Commit()
	}
	if err := tx.QueryRowContext(ctx, highestEpoch, last.Epoch, want.Lane, relayScope, name).Scan(&want.Epoch); err != nil {
		return relay.Lease{}, err
	}
	want.Held, want.Epoch, want.Deaths = true, want.Epoch+1, last.SuccessorDeaths(ttl)
	if _, err := tx.ExecContext(ctx, installLeader, want.Owner, want.Epoch, want.Deaths, l.s.clock(), want.Lane); err != nil {
		return relay.Lease{}, err
	}
	if _, err := tx.ExecContext(ctx, installRenewal, relayScope, name, want.Epoch, want.Owner, l.s.clock(), ttl.Microseconds()); err != nil {
		return relay.Lease{}, err
	}
	if err := tx.Commit(); err != nil {
		return relay.Lease{}, err
	}
	l.hold(holding{lease: want, lane: lane})
	return want, nil
}

const resignLeader = `UPDATE t_outbox_lease SET clean = true, ended = ? WHERE lane = ? AND owner = ? AND epoch = ? AND NOT clean`

// Resign implements relay.Store.
func (l *Log) Resign(ctx context.Context, lease relay.Lease) error {
	l.hold(holding{})
	n, err := affected(l.s.own.ExecContext(ctx, resignLeader, lease.Ended, lease.Lane, lease.Owner, leaderEpoch(lease)))
	if err == nil && n == 0 {
		err = settle.ErrFenced
	}
	if err != nil {
		return fmt.Errorf("resign lane %d: %w", lease.Lane, explain(err))
	}
	return nil
}
