package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

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
		return relay.Lease{}, fmt.Errorf("lead lane %d: %w", lane, err)
	}
	return lease, nil
}

func (l *Log) lead(ctx context.Context, want relay.Lease, ttl time.Duration) (relay.Lease, error) {
	h := l.holding()
	if h.lease.Held && h.lease.Owner == want.Owner && h.lease.Lane == want.Lane {
		h.lease.Expires, h.ttl = want.Expires, ttl
		ok, err := l.renew(ctx, h)
		if err != nil {
			return relay.Lease{}, err
		}
		if ok {
			l.hold(h)
			return h.lease, nil
		}
		l.hold(holding{})
	}
	var last leader
	var lane laneStanding
	err := l.s.snapshot(ctx, func(tx pgx.Tx) (err error) {
		if lane, err = laneNow(ctx, tx, want.Lane); err == nil {
			last, err = l.readLeader(ctx, tx, want.Lane, "")
		}
		return err
	})
	not := relay.Lease{Owner: want.Owner, Lane: want.Lane, Ended: lane.ended}
	if not.Early = err == nil && !lane.begun; not.Early && lane.ready {
		lane.begun, err = l.begin(ctx, lane.Generation)
		not.Early = !lane.begun
	}
	if err != nil || not.Early || not.Ended || !last.Free(want.Owner) && !last.Leapt(ttl) {
		return not, err
	}
	return l.takeOver(ctx, want, lane.Lane, ttl)
}

// databaseNow is the time that leases go by: the database's, or that of a clock
// which was given.
const databaseNow = `coalesce($1::timestamptz, clock_timestamp())`

// clock is the argument of databaseNow.
func (s *Store) clock() any {
	if s.cfg.Clock == nil {
		return nil
	}
	return s.cfg.Clock().UTC()
}

const renewLease = `INSERT INTO settle_renewal (scope, name, epoch, owner, expires_at)
SELECT $2, $3, epoch, owner, ` + databaseNow + ` + $4::bigint * interval '1 microsecond' FROM t_outbox_lease
WHERE lane = $5 AND owner = $6 AND epoch = $7 AND NOT clean FOR SHARE`

func (l *Log) renew(ctx context.Context, h holding) (renewed bool, err error) {
	var b pgx.Batch
	b.Queue(writeSettings, l.settings()...)
	b.Queue(renewLease, l.s.clock(), relayScope, laneName(h.lease.Lane), h.ttl.Microseconds(), h.lease.Lane, h.lease.Owner, h.lease.Epoch).
		Exec(func(tag pgconn.CommandTag) error {
			renewed = tag.RowsAffected() == 1
			return nil
		})
	err = l.s.own.SendBatch(ctx, &b).Close()
	return renewed, err
}

func laneName(lane int) string { return strconv.Itoa(lane) }

// leader is who leads a lane, and whether the lane has ended for ever.
type leader struct {
	outboxlog.Leader
	ended bool
}

const (
	newestRenewal = `SELECT l.owner, l.epoch, l.clean, l.ended, l.deaths, l.taken_at, r.expires_at, ` + databaseNow + `
FROM t_outbox_lease l LEFT JOIN LATERAL
 (SELECT expires_at FROM settle_renewal WHERE scope = $2 AND name = $3 AND epoch = l.epoch ORDER BY renewal_no DESC LIMIT 1) r ON true
WHERE l.lane = $4`

	lockLease = `SELECT 1 FROM t_outbox_lease WHERE lane = $1 FOR UPDATE`
)

func (l *Log) readLeader(ctx context.Context, tx pgx.Tx, lane int, lock string) (leader, error) {
	if lock != "" {
		if _, err := tx.Exec(ctx, lock, lane); err != nil {
			return leader{}, err
		}
	}
	var is leader
	var expires pgtype.Timestamptz
	err := tx.QueryRow(ctx, newestRenewal, l.s.clock(), relayScope, laneName(lane), lane).
		Scan(&is.Owner, &is.Epoch, &is.Clean, &is.ended, &is.Deaths, &is.Taken, &expires, &is.Now)
	if errors.Is(err, pgx.ErrNoRows) {
		return leader{}, nil
	}
	is.Expires = instant(expires)
	return is, err
}

const (
	// A table that was emptied must not give an epoch again.
	highestEpoch = `SELECT greatest($1::bigint, coalesce((SELECT epoch FROM t_outbox_checkpoint WHERE lane = $2 ORDER BY epoch DESC LIMIT 1), 0),
 coalesce((SELECT max(epoch) FROM settle_renewal WHERE scope = $3 AND name = $4), 0))`

	// The first leader finds no row to lock; the second of two waits here.
	makeLease = `INSERT INTO t_outbox_lease (lane, owner, epoch, clean, deaths, taken_at) VALUES ($1, '', 0, true, 0, now()) ON CONFLICT DO NOTHING`

	installLeader = `UPDATE t_outbox_lease SET owner = $2, epoch = $3, clean = false, deaths = $4, taken_at = ` + databaseNow + ` WHERE lane = $5`

	installRenewal = `INSERT INTO settle_renewal (scope, name, epoch, owner, expires_at) VALUES ($2, $3, $4, $5, ` + databaseNow + ` + $6::bigint * interval '1 microsecond')`
)

func (l *Log) takeOver(ctx context.Context, want relay.Lease, lane relay.Lane, ttl time.Duration) (relay.Lease, error) {
	lease := want
	err := pgx.BeginTxFunc(ctx, l.s.own, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, writeSettings, ms(min(l.s.cfg.StatementTimeout, ttl/2)), ms(min(l.s.cfg.LockTimeout, ttl/2)), ms(min(l.s.cfg.IdleTimeout, ttl/2))); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, makeLease, want.Lane); err != nil {
			return err
		}
		last, err := l.readLeader(ctx, tx, want.Lane, lockLease)
		if err != nil {
			return err
		}
		if lease.Ended = last.ended; lease.Ended {
			return nil
		}
		if !last.Free(want.Owner) {
			return l.shorten(ctx, tx, last, want.Lane, ttl)
		}
		var epoch int64
		if err := tx.QueryRow(ctx, highestEpoch, last.Epoch, want.Lane, relayScope, laneName(want.Lane)).Scan(&epoch); err != nil {
			return err
		}
		lease.Held, lease.Epoch, lease.Deaths = true, epoch+1, last.SuccessorDeaths(ttl)
		if _, err := tx.Exec(ctx, installLeader, l.s.clock(), lease.Owner, lease.Epoch, lease.Deaths, lease.Lane); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, installRenewal, l.s.clock(), relayScope, laneName(lease.Lane), lease.Epoch, lease.Owner, ttl.Microseconds())
		return err
	})
	if err != nil {
		return relay.Lease{}, err
	}
	if lease.Held {
		l.hold(holding{lease: lease, lane: lane, ttl: ttl})
	}
	return lease, nil
}

// shorten cuts a lease that was written before the clock was set back to a
// lease time from now: an owner that lives renews it, that of one that is gone
// runs out.
func (l *Log) shorten(ctx context.Context, tx pgx.Tx, last leader, lane int, ttl time.Duration) error {
	if !last.Leapt(ttl) {
		return nil
	}
	_, err := tx.Exec(ctx, installRenewal, l.s.clock(), relayScope, laneName(lane), last.Epoch, last.Owner, ttl.Microseconds())
	return err
}

const resignLeader = `UPDATE t_outbox_lease SET clean = true, ended = $4 WHERE lane = $1 AND owner = $2 AND epoch = $3 AND NOT clean`

// Resign implements relay.Store.
func (l *Log) Resign(ctx context.Context, lease relay.Lease) error {
	l.hold(holding{})
	tag, err := l.s.own.Exec(ctx, resignLeader, lease.Lane, lease.Owner, leaderEpoch(lease), lease.Ended)
	if err == nil && tag.RowsAffected() == 0 {
		err = settle.ErrFenced
	}
	if err != nil {
		return fmt.Errorf("resign lane %d: %w", lease.Lane, err)
	}
	return nil
}
