package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/store/bridgelog"
)

// Bridge keeps dead letters of consumers that are not ours.
type Bridge struct {
	s *Store
}

// Bridge returns the schema as what a bridge keeps letters in.
func (s *Store) Bridge() *Bridge { return &Bridge{s: s} }

var _ bridge.Store = (*Bridge)(nil)

const (
	// The first one finds no row to lock; the second of two waits here.
	makeBridgeLease = `INSERT INTO t_bridge_lease (consumer_group, owner, epoch, expires_at) VALUES ($1, '', 0, now()) ON CONFLICT DO NOTHING`

	lockBridgeLease = `SELECT owner, epoch, (extract(epoch FROM expires_at - ` + databaseNow + `) * 1000000)::bigint FROM t_bridge_lease WHERE consumer_group = $2 FOR UPDATE`

	writeBridgeLease = `UPDATE t_bridge_lease SET owner = $2, epoch = $3, expires_at = ` + databaseNow + ` + $4::bigint * interval '1 microsecond' WHERE consumer_group = $5`
)

// Lead implements bridge.Store.
func (b *Bridge) Lead(ctx context.Context, group, owner string, ttl time.Duration) (bridge.Lease, error) {
	if group == "" || owner == "" || ttl <= 0 {
		return bridge.Lease{}, fmt.Errorf("lead bridge of group %q: want a group, an owner and a lease time, got %q and %s", group, owner, ttl)
	}
	lease := bridge.Lease{Group: group, Owner: owner, Expires: time.Now().Add(ttl)}
	err := b.s.write(ctx, b.s.own, func(tx pgx.Tx) error {
		lease.Held = false
		if _, err := tx.Exec(ctx, makeBridgeLease, group); err != nil {
			return err
		}
		var holder string
		var left int64
		if err := tx.QueryRow(ctx, lockBridgeLease, b.s.clock(), group).Scan(&holder, &lease.Epoch, &left); err != nil {
			return err
		}
		// One that runs longer than any that is given now was written before the
		// clock was set back.
		left *= int64(time.Microsecond)
		switch {
		case holder == owner:
		case holder == "" || left <= 0 || time.Duration(left) > bridgelog.Leapt(ttl):
			lease.Epoch++
		default:
			return nil
		}
		lease.Held = true
		_, err := tx.Exec(ctx, writeBridgeLease, b.s.clock(), owner, lease.Epoch, ttl.Microseconds(), group)
		return err
	})
	if err != nil {
		return bridge.Lease{}, fmt.Errorf("lead bridge of group %s: %w", group, err)
	}
	return lease, nil
}

// Resign implements bridge.Store.
func (b *Bridge) Resign(ctx context.Context, l bridge.Lease) error {
	err := b.write(ctx, l, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, writeBridgeLease, b.s.clock(), "", l.Epoch, 0, l.Group)
		return err
	})
	if err != nil {
		return fmt.Errorf("resign bridge of group %s: %w", l.Group, err)
	}
	return nil
}

// A takeover waits for who writes, and who writes for a takeover.
const holdBridgeLease = `SELECT owner, epoch FROM t_bridge_lease WHERE consumer_group = $1 FOR UPDATE`

// write runs f in a transaction that only who leads can commit.
func (b *Bridge) write(ctx context.Context, l bridge.Lease, f func(tx pgx.Tx) error) error {
	return b.s.write(ctx, b.s.own, func(tx pgx.Tx) error {
		var owner string
		var epoch int64
		err := tx.QueryRow(ctx, holdBridgeLease, l.Group).Scan(&owner, &epoch)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if !l.Held || owner != l.Owner || epoch != l.Epoch {
			return settle.ErrFenced
		}
		return f(tx)
	})
}
