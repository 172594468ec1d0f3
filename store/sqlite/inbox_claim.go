package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/outboxlog"
)

// leasing is one Claim. Membership and renewals are rows of the lease file,
// which changes several times a second; owner and epoch are rows of the
// service's own file, because they fence its transactions.
type leasing struct {
	settle.ClaimRequest
	now time.Time
}

// fairShare returns the partitions that owner should hold: of what it holds
// now at most its share, then what is free. Members split n partitions evenly,
// the first ones in order of name take what is left over.
func fairShare(owner string, members []string, n int, holder map[int]string) []int {
	slices.Sort(members)
	rank := slices.Index(members, owner)
	share := n / len(members)
	if rank < n%len(members) {
		share++
	}
	var mine []int
	for _, want := range []string{owner, ""} {
		for p := range n {
			if holder[p] == want && len(mine) < share {
				mine = append(mine, p)
			}
		}
	}
	slices.Sort(mine)
	return mine
}

// Claim implements settle.Inbox.
func (in *Inbox) Claim(ctx context.Context, r settle.ClaimRequest) ([]settle.Claim, error) {
	if r.Partitions < 1 || r.Owner == "" || r.TTL <= 0 {
		return nil, fmt.Errorf("claim partitions of %s: want a number of partitions, an owner and a lease time, got %d, %q and %s", r.Topic, r.Partitions, r.Owner, r.TTL)
	}
	started := time.Now()
	l := leasing{ClaimRequest: r, now: in.s.now()}
	mine, err := in.lease(ctx, l)
	if err != nil {
		return nil, fmt.Errorf("claim partitions of %s: %w", r.Topic, err)
	}
	claims, stale, err := in.owned(ctx, l, mine)
	if err == nil && len(stale) > 0 {
		claims, err = in.takeOver(ctx, l, mine)
	}
	if err != nil {
		return nil, fmt.Errorf("claim partitions of %s: %w", r.Topic, err)
	}
	for i := range claims {
		claims[i].Expires = started.Add(r.TTL)
	}
	return claims, nil
}

// scope names what is leased in the lease file. Quoting keeps names apart.
func scope(kind, group, topic string) string { return fmt.Sprintf("%s %q %q", kind, group, topic) }

const (
	scopeMember    = "member"
	scopePartition = "partition"
)

const renew = `INSERT INTO settle_renewal (scope, name, owner, epoch, expires_at) VALUES (?,?,?,0,?)
ON CONFLICT (scope, name) DO UPDATE SET owner = excluded.owner, expires_at = excluded.expires_at`

const expire = `DELETE FROM settle_renewal WHERE scope = ? AND expires_at <= ?`

// Leases written before the clock was set back are cut to a lease time from
// now; see Log.free.
const shorten = `UPDATE settle_renewal SET expires_at = ? WHERE scope = ? AND expires_at > ?`

const readRenewals = `SELECT name, owner FROM settle_renewal WHERE scope = ?`

const dropRenewal = `DELETE FROM settle_renewal WHERE scope = ? AND name = ? AND owner = ?`

// lease renews the membership, and what the member holds, in one transaction
// of the lease file, and gives back what is above its share.
func (in *Inbox) lease(ctx context.Context, l leasing) ([]int, error) {
	tx, err := in.s.lease.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	expires := l.now.Add(l.TTL).UnixMicro()
	member, partition := scope(scopeMember, l.Group, l.Topic), scope(scopePartition, l.Group, l.Topic)
	if _, err := tx.ExecContext(ctx, renew, member, l.Owner, l.Owner, expires); err != nil {
		return nil, err
	}
	members, holder, err := readLeases(ctx, tx, l, member, partition)
	if err != nil {
		return nil, err
	}
	mine := fairShare(l.Owner, members, l.Partitions, holder)
	for p := range l.Partitions {
		if holder[p] != l.Owner || slices.Contains(mine, p) {
			continue
		}
		// The fence goes first: whoever takes the lease then sees a clean end.
		if err := in.giveBack(ctx, l, p); err != nil {
			return nil, err
		}
		if _, err := tx.ExecContext(ctx, dropRenewal, partition, strconv.Itoa(p), l.Owner); err != nil {
			return nil, err
		}
	}
	for _, p := range mine {
		if _, err := tx.ExecContext(ctx, renew, partition, strconv.Itoa(p), l.Owner, expires); err != nil {
			return nil, err
		}
	}
	return mine, tx.Commit()
}

const releasePartition = `UPDATE t_consume_partition SET owner = '' WHERE consumer_group = ? AND topic = ? AND number = ? AND owner = ?`

func (in *Inbox) giveBack(ctx context.Context, l leasing, p int) error {
	tx, err := in.s.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, releasePartition, l.Group, l.Topic, p, l.Owner); err != nil {
		return err
	}
	return tx.Commit()
}

func readLeases(ctx context.Context, tx *sql.Tx, l leasing, member, partition string) (members []string, holder map[int]string, err error) {
	holder = map[int]string{}
	for _, of := range []string{member, partition} {
		if _, err := tx.ExecContext(ctx, expire, of, l.now.UnixMicro()); err != nil {
			return nil, nil, err
		}
		latest := l.now.Add(l.TTL)
		if _, err := tx.ExecContext(ctx, shorten, latest.UnixMicro(), of, latest.Add(outboxlog.Leap).UnixMicro()); err != nil {
			return nil, nil, err
		}
		err := each(ctx, tx, func(rows *sql.Rows) error {
			var name, owner string
			if err := rows.Scan(&name, &owner); err != nil {
				return err
			}
			if of == member {
				members = append(members, owner)
			} else if p, err := strconv.Atoi(name); err == nil {
				holder[p] = owner
			}
			return nil
		}, readRenewals, of)
		if err != nil {
			return nil, nil, err
		}
	}
	return members, holder, nil
}

const readPartitions = `SELECT number, owner, epoch, generation, position, event_id, deaths FROM t_consume_partition
WHERE consumer_group = ? AND topic = ?`

// owned reads mine from the service's file; stale are those whose fence names
// somebody else.
func (in *Inbox) owned(ctx context.Context, l leasing, mine []int) (claims []settle.Claim, stale []int, err error) {
	tx, err := in.s.snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = tx.Rollback() }()
	return readClaims(ctx, tx, l, mine)
}

func readClaims(ctx context.Context, tx *sql.Tx, l leasing, mine []int) (claims []settle.Claim, stale []int, err error) {
	found := map[int]settle.Claim{}
	err = each(ctx, tx, func(rows *sql.Rows) error {
		c := settle.Claim{Partition: settle.Partition{Topic: l.Topic}}
		p := &c.Partition
		err := rows.Scan(&p.Number, &p.Owner, &p.Epoch, &p.Generation, &c.Floor.Position, &c.Floor.EventID, &c.Deaths)
		c.Floor.Generation = p.Generation
		found[p.Number] = c
		return err
	}, readPartitions, l.Group, l.Topic)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range mine {
		if c, ok := found[n]; ok && c.Partition.Owner == l.Owner {
			claims = append(claims, c)
		} else {
			stale = append(stale, n)
		}
	}
	return claims, stale, nil
}

const takePartition = `INSERT INTO t_consume_partition (consumer_group, topic, number, owner, epoch) VALUES (?1, ?2, ?3, ?4, 1)
ON CONFLICT (consumer_group, topic, number) DO UPDATE SET
deaths = CASE WHEN owner = '' OR position > claimed_position THEN 0 ELSE deaths + 1 END,
owner = excluded.owner, epoch = epoch + 1, claimed_position = position
WHERE owner <> excluded.owner`

// takeOver fences the former owners of what is now ours. Whatever they are
// writing is either committed before this or refused after it.
func (in *Inbox) takeOver(ctx context.Context, l leasing, mine []int) ([]settle.Claim, error) {
	tx, err := in.s.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	_, stale, err := readClaims(ctx, tx, l, mine)
	if err != nil {
		return nil, err
	}
	for _, n := range stale {
		if _, err := tx.ExecContext(ctx, takePartition, l.Group, l.Topic, n, l.Owner); err != nil {
			return nil, err
		}
	}
	claims, _, err := readClaims(ctx, tx, l, mine)
	if err != nil {
		return nil, err
	}
	// Crash here: the lease is ours but not the fence; the next owner counts
	// no death for it.
	return claims, tx.Commit()
}

const releasePartitions = `UPDATE t_consume_partition SET owner = '' WHERE consumer_group = ? AND owner = ?`

const leaveGroup = `DELETE FROM settle_renewal WHERE owner = ?1 AND (substr(scope, 1, length(?2)) = ?2 OR substr(scope, 1, length(?3)) = ?3)`

// Release implements settle.Inbox.
func (in *Inbox) Release(ctx context.Context, group, owner string) error {
	tx, err := in.s.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, releasePartitions, group, owner); err != nil {
		return fmt.Errorf("release partitions of group %s: %w", group, err)
	}
	// Crash here: the fence is still ours, the lease runs out by itself.
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("release partitions of group %s: %w", group, err)
	}
	_, err = in.s.lease.ExecContext(ctx, leaveGroup, owner,
		fmt.Sprintf("%s %q ", scopeMember, group), fmt.Sprintf("%s %q ", scopePartition, group))
	if err == nil {
		_, err = in.s.lease.ExecContext(ctx, leaveRoll, group, owner)
	}
	if err != nil {
		return fmt.Errorf("release partitions of group %s: %w", group, err)
	}
	return nil
}

// RaiseFloor implements settle.Inbox.
func (in *Inbox) RaiseFloor(ctx context.Context, group string, p settle.Partition, to settle.Floor) error {
	tx, err := in.s.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	move := settle.FloorMove{Partition: p, To: to}
	if _, err := guard(ctx, tx, group, move); err != nil {
		return err
	}
	if err := raise(ctx, tx, group, move); err != nil {
		return err
	}
	return tx.Commit()
}
