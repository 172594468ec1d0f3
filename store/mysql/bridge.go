package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/store/bridgelog"
)

// Bridge keeps dead letters of consumers that are not ours.
type Bridge struct {
	s *Store
}

// Bridge returns the database as what a bridge keeps letters in.
func (s *Store) Bridge() *Bridge { return &Bridge{s: s} }

var _ bridge.Store = (*Bridge)(nil)

const (
	// The first one finds no row to lock; the second of two waits for it.
	knowsBridgeLease = `SELECT count(*) FROM t_bridge_lease WHERE consumer_group = ?`

	makeBridgeLease = `INSERT IGNORE INTO t_bridge_lease (consumer_group, owner, epoch, expires_at) VALUES (?, '', 0, UTC_TIMESTAMP(6))`

	lockBridgeLease = `SELECT owner, epoch, expires_at, ` + databaseNow + ` FROM t_bridge_lease WHERE consumer_group = ? FOR UPDATE`

	writeBridgeLease = `UPDATE t_bridge_lease SET owner = ?, epoch = ?, expires_at = ` + databaseNow + ` + INTERVAL ? MICROSECOND WHERE consumer_group = ?`
)

// Lead implements bridge.Store.
func (b *Bridge) Lead(ctx context.Context, group, owner string, ttl time.Duration) (bridge.Lease, error) {
	if group == "" || owner == "" || ttl <= 0 {
		return bridge.Lease{}, fmt.Errorf("lead bridge of group %q: want a group, an owner and a lease time, got %q and %s", group, owner, ttl)
	}
	lease, err := b.lead(ctx, bridge.Lease{Group: group, Owner: owner, Expires: time.Now().Add(ttl)}, ttl)
	if err != nil {
		return bridge.Lease{}, fmt.Errorf("lead bridge of group %s: %w", group, err)
	}
	return lease, nil
}

func (b *Bridge) lead(ctx context.Context, lease bridge.Lease, ttl time.Duration) (bridge.Lease, error) {
	var there int
	if err := b.s.own.QueryRowContext(ctx, knowsBridgeLease, lease.Group).Scan(&there); err != nil {
		b.s.left(err)
		return lease, explain(err)
	}
	if there == 0 {
		if _, err := b.s.own.ExecContext(ctx, makeBridgeLease, lease.Group); err != nil {
			b.s.left(err)
			return lease, explain(err)
		}
	}
	err := b.s.write(ctx, b.s.own, func(tx *sql.Tx) error {
		lease.Held = false
		var holder string
		var expires, now timeColumn
		if err := tx.QueryRowContext(ctx, lockBridgeLease, b.s.clock(), lease.Group).Scan(&holder, &lease.Epoch, &expires, &now); err != nil {
			return err
		}
		// One that runs longer than any that is given now was written before the
		// clock was set back.
		left := expires.Sub(now.Time)
		switch {
		case holder == lease.Owner:
		case holder == "" || left <= 0 || left > bridgelog.Leapt(ttl):
			lease.Epoch++
		default:
			return nil
		}
		lease.Held = true
		_, err := tx.ExecContext(ctx, writeBridgeLease, lease.Owner, lease.Epoch, b.s.clock(), ttl.Microseconds(), lease.Group)
		return err
	})
	return lease, err
}

// Resign implements bridge.Store.
func (b *Bridge) Resign(ctx context.Context, l bridge.Lease) error {
	err := b.write(ctx, l, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, writeBridgeLease, "", l.Epoch, b.s.clock(), 0, l.Group)
		return err
	})
	if err != nil {
		return fmt.Errorf("resign bridge of group %s: %w", l.Group, err)
	}
	return nil
}

// A takeover waits for who writes, and who writes for a takeover.
const holdBridgeLease = `SELECT owner, epoch FROM t_bridge_lease WHERE consumer_group = ? FOR UPDATE`

// write runs f in a transaction that only who leads can commit.
func (b *Bridge) write(ctx context.Context, l bridge.Lease, f func(tx *sql.Tx) error) error {
	return b.s.write(ctx, b.s.own, func(tx *sql.Tx) error {
		var owner string
		var epoch int64
		err := tx.QueryRowContext(ctx, holdBridgeLease, l.Group).Scan(&owner, &epoch)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if !l.Held || owner != l.Owner || epoch != l.Epoch {
			return settle.ErrFenced
		}
		return f(tx)
	})
}
