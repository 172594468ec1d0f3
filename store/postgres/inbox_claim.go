package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/outboxlog"
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

// memberScope names a group's members for a topic. Quoting keeps names apart.
func memberScope(group, topic string) string { return fmt.Sprintf("member %q %q", group, topic) }

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
	err := in.s.write(ctx, in.s.own, func(tx pgx.Tx) error {
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
	// Members of one topic claim one after the other.
	claimAlone = `SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' ' || $1, 1))`

	expireMembers = `DELETE FROM settle_renewal WHERE scope = $2 AND expires_at <= ` + databaseNow

	// Leases written before the clock was set back are cut to a lease time from now.
	shortenMembers = `UPDATE settle_renewal SET expires_at = ` + databaseNow + ` + $3::bigint * interval '1 microsecond'
WHERE scope = $2 AND expires_at > ` + databaseNow + ` + $4::bigint * interval '1 microsecond'`

	renewMember = `WITH renewed AS (UPDATE settle_renewal SET expires_at = ` + databaseNow + ` + $4::bigint * interval '1 microsecond'
 WHERE scope = $2 AND name = $3 RETURNING 1)
INSERT INTO settle_renewal (scope, name, epoch, owner, expires_at)
SELECT $2, $3, 0, $3, ` + databaseNow + ` + $4::bigint * interval '1 microsecond' WHERE NOT EXISTS (SELECT 1 FROM renewed)`

	readMembers = `SELECT name FROM settle_renewal WHERE scope = $1`

	readPartitions = `SELECT number, owner, epoch, generation, position, event_id, deaths FROM t_consume_partition
WHERE consumer_group = $1 AND topic = $2`
)

// renew renews the membership, and reads who else is one and has what. A
// renewal that is lost in a crash of the server is worth nothing after it, so
// nothing waits for the disk unless partitions change hands.
func (l *leasing) renew(ctx context.Context, tx pgx.Tx) error {
	var b pgx.Batch
	b.Queue(noFlush)
	b.Queue(claimAlone, l.scope)
	b.Queue(expireMembers, l.clock, l.scope)
	b.Queue(shortenMembers, l.clock, l.scope, l.TTL.Microseconds(), (l.TTL + outboxlog.Leap).Microseconds())
	b.Queue(renewMember, l.clock, l.scope, l.Owner, l.TTL.Microseconds())
	b.Queue(readMembers, l.scope).Query(func(rows pgx.Rows) (err error) {
		l.members, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	b.Queue(readPartitions, l.Group, l.Topic).Query(l.partitions)
	return tx.SendBatch(ctx, &b).Close()
}

func (l *leasing) partitions(rows pgx.Rows) error {
	c := settle.Claim{Partition: settle.Partition{Topic: l.Topic}}
	p := &c.Partition
	_, err := pgx.ForEachRow(rows, []any{&p.Number, &p.Owner, &p.Epoch, &p.Generation, &c.Floor.Position, &c.Floor.EventID, &c.Deaths}, func() error {
		c.Floor.Generation = p.Generation
		l.found[p.Number] = c
		return nil
	})
	return err
}

// holder returns who has a partition; "": nobody who has a lease.
func (l *leasing) holder(number int) string {
	if owner := l.found[number].Partition.Owner; slices.Contains(l.members, owner) {
		return owner
	}
	return ""
}

const (
	// What another transaction has in hand changes hands later: whatever it
	// writes is either committed before, or refused after.
	makePartitions = `INSERT INTO t_consume_partition (consumer_group, topic, number) SELECT $1, $2, unnest($3::integer[]) ON CONFLICT DO NOTHING`

	takePartitions = `UPDATE t_consume_partition p SET
deaths = CASE WHEN p.epoch = 0 OR p.owner = '' OR p.position > p.claimed_position THEN 0 ELSE p.deaths + 1 END,
owner = $4, epoch = p.epoch + 1, claimed_position = p.position
FROM (SELECT number FROM t_consume_partition WHERE consumer_group = $1 AND topic = $2 AND number = ANY($3) FOR UPDATE SKIP LOCKED) free
WHERE p.consumer_group = $1 AND p.topic = $2 AND p.number = free.number`

	releasePartitions = `UPDATE t_consume_partition p SET owner = ''
FROM (SELECT number FROM t_consume_partition WHERE consumer_group = $1 AND topic = $2 AND number = ANY($3) AND owner = $4 FOR UPDATE SKIP LOCKED) ours
WHERE p.consumer_group = $1 AND p.topic = $2 AND p.number = ours.number`

	flushChange = `SELECT set_config('synchronous_commit', 'on', true)`
)

// settle gives back what is above the member's share, takes what it lacks, and
// returns what it has.
func (l *leasing) settle(ctx context.Context, tx pgx.Tx) ([]settle.Claim, error) {
	mine := fairShare(l.Owner, l.members, l.Partitions, l.holder)
	var surplus, lacking []int32
	for n := range l.Partitions {
		switch has := l.found[n].Partition.Owner == l.Owner; {
		case has && !slices.Contains(mine, n):
			surplus = append(surplus, int32(n))
		case !has && slices.Contains(mine, n):
			lacking = append(lacking, int32(n))
		}
	}
	if len(surplus)+len(lacking) > 0 {
		if err := l.change(ctx, tx, surplus, lacking); err != nil {
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

func (l *leasing) change(ctx context.Context, tx pgx.Tx, surplus, lacking []int32) error {
	var b pgx.Batch
	b.Queue(flushChange)
	if len(surplus) > 0 {
		b.Queue(releasePartitions, l.Group, l.Topic, surplus, l.Owner)
	}
	if len(lacking) > 0 {
		b.Queue(makePartitions, l.Group, l.Topic, lacking)
		b.Queue(takePartitions, l.Group, l.Topic, lacking, l.Owner)
	}
	b.Queue(readPartitions, l.Group, l.Topic).Query(l.partitions)
	return tx.SendBatch(ctx, &b).Close()
}

const (
	leavePartitions = `UPDATE t_consume_partition SET owner = '' WHERE consumer_group = $1 AND owner = $2`
	leaveGroup      = `DELETE FROM settle_renewal WHERE name = $1 AND starts_with(scope, $2)`
	leaveRetries    = `UPDATE t_consume_retry SET claimed_by = NULL, claimed_until = NULL
WHERE consumer_group = $1 AND state = 'PARKED' AND next_at IS NOT NULL AND claimed_by = $2`
)

// Release implements settle.Inbox.
func (in *Inbox) Release(ctx context.Context, group, owner string) error {
	err := in.s.write(ctx, in.s.own, func(tx pgx.Tx) error {
		var b pgx.Batch
		b.Queue(leavePartitions, group, owner)
		b.Queue(leaveGroup, owner, fmt.Sprintf("member %q ", group))
		b.Queue(leaveRetries, group, in.s.member)
		b.Queue(leaveRoll, group, owner)
		return tx.SendBatch(ctx, &b).Close()
	})
	if err != nil {
		return fmt.Errorf("release partitions of group %s: %w", group, err)
	}
	return nil
}

// RaiseFloor implements settle.Inbox.
func (in *Inbox) RaiseFloor(ctx context.Context, group string, p settle.Partition, to settle.Floor) error {
	w := settle.Work{Group: group, Floors: []settle.FloorMove{{Partition: p, To: to}}}
	return in.s.write(ctx, in.s.own, func(tx pgx.Tx) error {
		owned := newOwnership(&w)
		var b pgx.Batch
		owned.queue(&b)
		raise(&b, group, w.Floors[0])
		if err := tx.SendBatch(ctx, &b).Close(); err != nil {
			return fmt.Errorf("move floor of partition %d of %s: %w", p.Number, p.Topic, err)
		}
		return owned.check()
	})
}
