package postgres

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/outboxlog"
)

const (
	forgetMembers = `DELETE FROM t_consume_member m USING t_consume_member life
WHERE life.consumer_group = $2 AND life.slot = 0 AND life.expires_at <= ` + databaseNow + ` - $3::bigint * interval '1 microsecond'
AND m.consumer_group = life.consumer_group AND m.owner = life.owner`

	// Leases written before the clock was set back are cut to a lease time from now.
	shortenAttendance = `UPDATE t_consume_member SET expires_at = ` + databaseNow + ` + $3::bigint * interval '1 microsecond'
WHERE consumer_group = $2 AND slot = 0 AND expires_at > ` + databaseNow + ` + $4::bigint * interval '1 microsecond'`

	attend = `INSERT INTO t_consume_member (consumer_group, owner, slot, expires_at) VALUES ($2, $3, 0, ` + databaseNow + ` + $4::bigint * interval '1 microsecond')
ON CONFLICT (consumer_group, owner, slot) DO UPDATE SET expires_at = excluded.expires_at`

	readDeparted = `SELECT m.slot, m.in_hand FROM t_consume_member life JOIN t_consume_member m ON m.consumer_group = life.consumer_group AND m.owner = life.owner
WHERE life.consumer_group = $2 AND life.slot = 0 AND life.owner <> $4 AND life.expires_at <= ` + databaseNow + ` ORDER BY life.expires_at DESC, m.slot LIMIT $3`

	// maxDeparted bounds what is read of members that died.
	maxDeparted = 1000
)

// Attend implements settle.Inbox. What is lost of it in a crash of the server is
// worth nothing after it, so nothing waits for the disk.
func (in *Inbox) Attend(ctx context.Context, r settle.Attendance) (settle.Departed, error) {
	var d settle.Departed
	err := in.s.write(ctx, in.s.own, func(tx pgx.Tx) error {
		d = settle.Departed{}
		clock, ttl := in.s.clock(), r.TTL.Microseconds()
		var b pgx.Batch
		b.Queue(noFlush)
		b.Queue(forgetMembers, clock, r.Group, r.Remember.Microseconds())
		b.Queue(shortenAttendance, clock, r.Group, ttl, (r.TTL + outboxlog.Leap).Microseconds())
		b.Queue(attend, clock, r.Group, r.Owner, ttl)
		b.Queue(readDeparted, clock, r.Group, maxDeparted, r.Owner).Query(func(rows pgx.Rows) error {
			var slot int
			var held string
			_, err := pgx.ForEachRow(rows, []any{&slot, &held}, func() error {
				if slot == 0 {
					d.Deaths++
					return nil
				}
				var ids []string
				err := json.Unmarshal([]byte(held), &ids)
				d.InHand = append(d.InHand, ids...)
				return err
			})
			return err
		})
		return tx.SendBatch(ctx, &b).Close()
	})
	if err != nil {
		return settle.Departed{}, fmt.Errorf("attend group %s: %w", r.Group, err)
	}
	return d, nil
}

const (
	noFlush = `SELECT set_config('synchronous_commit', 'off', true)`

	hold = `INSERT INTO t_consume_member (consumer_group, owner, slot, in_hand) VALUES ($1, $2, $3, $4)
ON CONFLICT (consumer_group, owner, slot) DO UPDATE SET in_hand = excluded.in_hand`
)

// Hold implements settle.Inbox.
func (in *Inbox) Hold(ctx context.Context, h settle.Hand) error {
	held, err := json.Marshal(h.EventIDs)
	if err == nil {
		err = in.s.write(ctx, in.s.own, func(tx pgx.Tx) error {
			var b pgx.Batch
			b.Queue(noFlush)
			b.Queue(hold, h.Group, h.Owner, h.Slot, string(held))
			return tx.SendBatch(ctx, &b).Close()
		})
	}
	if err != nil {
		return fmt.Errorf("write down what group %s has in hand: %w", h.Group, err)
	}
	return nil
}

const leaveRoll = `DELETE FROM t_consume_member WHERE consumer_group = $1 AND owner = $2`
