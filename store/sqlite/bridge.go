package sqlite

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

// Bridge returns the file as what a bridge keeps letters in.
func (s *Store) Bridge() *Bridge { return &Bridge{s: s} }

var _ bridge.Store = (*Bridge)(nil)

const readBridgeLease = `SELECT owner, epoch, expires_at FROM t_bridge_lease WHERE consumer_group = ?`

const writeBridgeLease = `INSERT INTO t_bridge_lease (consumer_group, owner, epoch, expires_at) VALUES (?,?,?,?)
ON CONFLICT (consumer_group) DO UPDATE SET owner = excluded.owner, epoch = excluded.epoch, expires_at = excluded.expires_at`

// Lead implements bridge.Store. It reads first: who stands by writes nothing.
func (b *Bridge) Lead(ctx context.Context, group, owner string, ttl time.Duration) (bridge.Lease, error) {
	if group == "" || owner == "" || ttl <= 0 {
		return bridge.Lease{}, fmt.Errorf("lead bridge of group %q: want a group, an owner and a lease time, got %q and %s", group, owner, ttl)
	}
	want := bridge.Lease{Group: group, Owner: owner, Expires: time.Now().Add(ttl)}
	lease, err := b.lead(ctx, want, ttl)
	if err != nil {
		return bridge.Lease{}, fmt.Errorf("lead bridge of group %s: %w", group, err)
	}
	return lease, nil
}

func (b *Bridge) lead(ctx context.Context, want bridge.Lease, ttl time.Duration) (bridge.Lease, error) {
	look, err := b.s.snapshot(ctx)
	if err != nil {
		return want, err
	}
	free, _, err := b.free(ctx, look, want, ttl)
	if err := errors.Join(err, look.Rollback()); err != nil || !free {
		return want, err
	}
	tx, err := b.s.Begin(ctx)
	if err != nil {
		return want, err
	}
	defer func() { _ = tx.Rollback() }()
	free, epoch, err := b.free(ctx, tx, want, ttl)
	if err != nil || !free {
		return want, err
	}
	if _, err := tx.ExecContext(ctx, writeBridgeLease, want.Group, want.Owner, epoch, b.s.now().Add(ttl).UnixMicro()); err != nil {
		return want, err
	}
	if err := tx.Commit(); err != nil {
		return want, err
	}
	want.Held, want.Epoch = true, epoch
	return want, nil
}

// free reports whether the lease can be had, and under which epoch. One that
// runs longer than any that is given now was written before the clock was set
// back.
func (b *Bridge) free(ctx context.Context, tx *sql.Tx, want bridge.Lease, ttl time.Duration) (bool, int64, error) {
	var owner string
	var epoch, expires int64
	err := tx.QueryRowContext(ctx, readBridgeLease, want.Group).Scan(&owner, &epoch, &expires)
	if errors.Is(err, sql.ErrNoRows) {
		return true, 1, nil
	}
	if err != nil {
		return false, 0, err
	}
	if owner == want.Owner {
		return true, epoch, nil
	}
	left := fromMicros(expires).Sub(b.s.now())
	return owner == "" || left <= 0 || left > bridgelog.Leapt(ttl), epoch + 1, nil
}

// Resign implements bridge.Store.
func (b *Bridge) Resign(ctx context.Context, l bridge.Lease) error {
	err := b.write(ctx, l, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, writeBridgeLease, l.Group, "", l.Epoch, 0)
		return err
	})
	if err != nil {
		return fmt.Errorf("resign bridge of group %s: %w", l.Group, err)
	}
	return nil
}

// write runs f in a transaction that only who leads can commit: a takeover
// needs the file's write lock too.
func (b *Bridge) write(ctx context.Context, l bridge.Lease, f func(tx *sql.Tx) error) error {
	tx, err := b.s.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var owner string
	var epoch, expires int64
	err = tx.QueryRowContext(ctx, readBridgeLease, l.Group).Scan(&owner, &epoch, &expires)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if !l.Held || owner != l.Owner || epoch != l.Epoch {
		return settle.ErrFenced
	}
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}
