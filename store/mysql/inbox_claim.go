package mysql

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/settlemq/settle"
)

// leasing is one Claim. A member's lease is one row; a partition is held while
// the member that it names has a lease. Owner and epoch fence transactions.
type leasing struct {
	settle.ClaimRequest
	scope string
	clock any
	// members have a lease now; found are the partitions, by number.
	members []string
	found   map[int]settle.Claim
}

// groupScope is what the scopes of a group's members begin with, memberScope
// that of a topic's. Hashes keep names apart and fit the column.
func groupScope(group string) string { return "member " + short(group) + " " }

func memberScope(group, topic string) string { return groupScope(group) + short(topic) }

func short(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:12])
}

// fairShare returns the partitions that owner should hold: of what it holds
// now at most its share, then what is free. Members split n partitions evenly,
// the first ones in order of name take what is left over.
func fairShare(owner string, members []string, n int, holder func(int) string) []int {
	slices.Sort(members)
	rank := slices.Index(members, owner)
	share := n / len(members)
	if rank < n%len(members) {
		share++
	}
	var mine []int
	for _, want := range []string{owner, ""} {
		for p := range n {
			if holder(p) == want && len(mine) < share {
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
	var claims []settle.Claim
	err := in.s.write(ctx, in.s.own, func(tx *sql.Tx) error {
		l := leasing{ClaimRequest: r, scope: memberScope(r.Group, r.Topic), clock: in.s.clock(), found: map[int]settle.Claim{}}
		if err := l.renew(ctx, tx); err != nil {
			return err
		}
		var err error
		claims, err = l.settle(ctx, tx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim partitions of %s: %w", r.Topic, err)
	}
	// Crash here: the partitions are ours; the next owner counts a death.
	for i := range claims {
		claims[i].Expires = started.Add(r.TTL)
	}
	return claims, nil
}

const (
	// Members of one topic claim one after the other: each locks this row, which
	// is nobody's lease, until it has committed.
	claimAlone = `INSERT INTO settle_renewal (renewal_no, scope, name, epoch, owner, expires_at) VALUES (-1, ?, '', 0, '', UTC_TIMESTAMP(6))
ON DUPLICATE KEY UPDATE owner = owner`

	expireMembers = `DELETE FROM settle_renewal WHERE scope = ? AND name <> '' AND expires_at <= ` + databaseNow

	// Leases written before the clock was set back are cut to a lease time from now.
	shortenMembers = `UPDATE settle_renewal SET expires_at = ` + databaseNow + ` + INTERVAL ? MICROSECOND
WHERE scope = ? AND name <> '' AND expires_at > ` + databaseNow + ` + INTERVAL ? MICROSECOND`

	renewMember = `UPDATE settle_renewal SET expires_at = ` + databaseNow + ` + INTERVAL ? MICROSECOND WHERE scope = ? AND name = ?`
	makeMember  = `INSERT INTO settle_renewal (scope, name, epoch, owner, expires_at) VALUES (?, ?, 0, ?, ` + databaseNow + ` + INTERVAL ? MICROSECOND)`

	readMembers = `SELECT name FROM settle_renewal WHERE scope = ? AND name <> ''`

	readPartitions = `SELECT number, owner, epoch, generation, position, event_id, deaths FROM t_consume_partition
WHERE consumer_group = ? AND topic = ?`
)

// leap is how much longer than our own lease time another one's may run before
// the clock must have been set back.
const leap = time.Minute

// renew renews the membership, and reads who else is one and has what.
func (l *leasing) renew(ctx context.Context, tx *sql.Tx) error {
	ttl := l.TTL.Microseconds()
	for _, s := range []struct {
		query string
		args  []any
	}{
		{claimAlone, []any{l.scope}},
		{expireMembers, []any{l.scope, l.clock}},
		{shortenMembers, []any{l.clock, ttl, l.scope, l.clock, (l.TTL + leap).Microseconds()}},
	} {
		if _, err := tx.ExecContext(ctx, s.query, s.args...); err != nil {
			return err
		}
	}
	n, err := affected(tx.ExecContext(ctx, renewMember, l.clock, ttl, l.scope, l.Owner))
	if err == nil && n == 0 {
		_, err = tx.ExecContext(ctx, makeMember, l.scope, l.Owner, l.Owner, l.clock, ttl)
	}
	if err != nil {
		return err
	}
	var name string
	if err := each(ctx, tx, []any{&name}, func() { l.members = append(l.members, name) }, readMembers, l.scope); err != nil {
		return err
	}
	return l.partitions(ctx, tx)
}

func (l *leasing) partitions(ctx context.Context, tx *sql.Tx) error {
	c := settle.Claim{Partition: settle.Partition{Topic: l.Topic}}
	p := &c.Partition
	return each(ctx, tx, []any{&p.Number, &p.Owner, &p.Epoch, &p.Generation, &c.Floor.Position, &c.Floor.EventID, &c.Deaths}, func() {
		c.Floor.Generation = p.Generation
		l.found[p.Number] = c
	}, readPartitions, l.Group, l.Topic)
}

// holder returns who has a partition; "": nobody who has a lease.
func (l *leasing) holder(number int) string {
	if owner := l.found[number].Partition.Owner; slices.Contains(l.members, owner) {
		return owner
	}
	return ""
}

const (
	makePartition = `INSERT INTO t_consume_partition (consumer_group, topic, number) VALUES (?, ?, ?)`

	// What another transaction has in hand changes hands later: whatever it
	// writes is either committed before, or refused after.
	freePartition = `SELECT owner FROM t_consume_partition WHERE consumer_group = ? AND topic = ? AND number = ? FOR UPDATE SKIP LOCKED`

	// deaths and claimed_position come before owner and epoch: each assignment
	// sees those before it.
	takePartition = `UPDATE t_consume_partition SET
deaths = CASE WHEN epoch = 0 OR owner = '' OR position > claimed_position THEN 0 ELSE deaths + 1 END,
claimed_position = position, owner = ?, epoch = epoch + 1 WHERE consumer_group = ? AND topic = ? AND number = ?`

	releasePartition = `UPDATE t_consume_partition SET owner = '' WHERE consumer_group = ? AND topic = ? AND number = ? AND owner = ?`
)

// settle gives back what is above the member's share, takes what it lacks, and
// returns what it has.
func (l *leasing) settle(ctx context.Context, tx *sql.Tx) ([]settle.Claim, error) {
	mine := fairShare(l.Owner, l.members, l.Partitions, l.holder)
	changed := false
	for n := range l.Partitions {
		has, wants := l.found[n].Partition.Owner == l.Owner, slices.Contains(mine, n)
		if has == wants {
			continue
		}
		changed = true
		if err := l.change(ctx, tx, n, wants); err != nil {
			return nil, err
		}
	}
	if changed {
		if err := l.partitions(ctx, tx); err != nil {
			return nil, err
		}
	}
	var claims []settle.Claim
	for n := range l.Partitions {
		if c := l.found[n]; c.Partition.Owner == l.Owner {
			claims = append(claims, c)
		}
	}
	return claims, nil
}

// change takes a partition that nobody has, or gives back one of our own.
func (l *leasing) change(ctx context.Context, tx *sql.Tx, n int, take bool) error {
	if _, there := l.found[n]; !there {
		if _, err := tx.ExecContext(ctx, makePartition, l.Group, l.Topic, n); err != nil {
			return err
		}
	}
	free := false
	var owner string
	if err := each(ctx, tx, []any{&owner}, func() { free = true }, freePartition, l.Group, l.Topic, n); err != nil || !free {
		return err
	}
	var err error
	if take {
		_, err = tx.ExecContext(ctx, takePartition, l.Owner, l.Group, l.Topic, n)
	} else {
		_, err = tx.ExecContext(ctx, releasePartition, l.Group, l.Topic, n, l.Owner)
	}
	return err
}

const (
	leavePartitions = `UPDATE t_consume_partition SET owner = '' WHERE consumer_group = ? AND owner = ?`
	leaveGroup      = `DELETE FROM settle_renewal WHERE scope LIKE CONCAT(?, '%') AND name = ?`

	// Looked for without a lock, because others work on what is between.
	findClaimed  = `SELECT id FROM t_consume_retry WHERE consumer_group = ? AND state = 'PARKED' AND next_at IS NOT NULL AND claimed_by = ?`
	leaveRetries = `UPDATE t_consume_retry SET claimed_by = NULL, claimed_until = NULL WHERE claimed_by = ? AND id IN `
)

// Release implements settle.Inbox.
func (in *Inbox) Release(ctx context.Context, group, owner string) error {
	err := in.s.write(ctx, in.s.own, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, leavePartitions, group, owner); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, leaveGroup, groupScope(group), owner); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, leaveRoll, group, owner); err != nil {
			return err
		}
		var id int64
		var ids []int64
		if err := each(ctx, tx, []any{&id}, func() { ids = append(ids, id) }, findClaimed, group, in.s.member); err != nil {
			return err
		}
		for some := range slices.Chunk(ids, rowsAtOnce) {
			if _, err := tx.ExecContext(ctx, leaveRetries+places(len(some)), anys([]any{in.s.member}, some)...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("release partitions of group %s: %w", group, err)
	}
	return nil
}

// RaiseFloor implements settle.Inbox.
func (in *Inbox) RaiseFloor(ctx context.Context, group string, p settle.Partition, to settle.Floor) error {
	w := settle.Work{Group: group, Floors: []settle.FloorMove{{Partition: p, To: to}}}
	return in.s.write(ctx, in.s.own, func(tx *sql.Tx) error {
		if err := guard(ctx, tx, &w); err != nil {
			return err
		}
		return raiseAll(ctx, tx, &w)
	})
}
