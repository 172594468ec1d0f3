package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/outboxlog"
)

// Members whose partitions the broker assigns say so in the lease file: what is
// lost of it in a power cut is worth nothing after it. Slot 0 is the member,
// from 1 on a worker of it; in_hand is a JSON array of event ids.
const createMembers = `CREATE TABLE IF NOT EXISTS t_consume_member (
  consumer_group TEXT    NOT NULL,
  owner          TEXT    NOT NULL,
  slot           INTEGER NOT NULL,
  expires_at     INTEGER,
  in_hand        TEXT    NOT NULL DEFAULT '',
  PRIMARY KEY (consumer_group, owner, slot)
) STRICT, WITHOUT ROWID`

const (
	forgetMembers = `DELETE FROM t_consume_member WHERE consumer_group = ?1 AND owner IN
(SELECT owner FROM t_consume_member WHERE consumer_group = ?1 AND slot = 0 AND expires_at <= ?2)`

	// Leases written before the clock was set back are cut to a lease time from now.
	shortenAttendance = `UPDATE t_consume_member SET expires_at = ? WHERE consumer_group = ? AND slot = 0 AND expires_at > ?`

	attend = `INSERT INTO t_consume_member (consumer_group, owner, slot, expires_at) VALUES (?,?,0,?)
ON CONFLICT (consumer_group, owner, slot) DO UPDATE SET expires_at = excluded.expires_at`

	readDeparted = `SELECT m.slot, m.in_hand FROM t_consume_member life JOIN t_consume_member m ON m.consumer_group = life.consumer_group AND m.owner = life.owner
WHERE life.consumer_group = ? AND life.slot = 0 AND life.expires_at <= ? ORDER BY life.expires_at DESC, m.slot LIMIT ?`

	// maxDeparted bounds what is read of members that died.
	maxDeparted = 1000
)

// Attend implements settle.Inbox.
func (in *Inbox) Attend(ctx context.Context, r settle.Attendance) (settle.Departed, error) {
	d, err := in.attend(ctx, r)
	if err != nil {
		return settle.Departed{}, fmt.Errorf("attend group %s: %w", r.Group, err)
	}
	return d, nil
}

func (in *Inbox) attend(ctx context.Context, r settle.Attendance) (d settle.Departed, err error) {
	tx, err := in.s.lease.BeginTx(ctx, nil)
	if err != nil {
		return d, err
	}
	defer func() { _ = tx.Rollback() }()
	now := in.s.now()
	until := now.Add(r.TTL)
	if _, err := tx.ExecContext(ctx, forgetMembers, r.Group, now.Add(-r.Remember).UnixMicro()); err != nil {
		return d, err
	}
	if _, err := tx.ExecContext(ctx, shortenAttendance, until.UnixMicro(), r.Group, until.Add(outboxlog.Leap).UnixMicro()); err != nil {
		return d, err
	}
	if _, err := tx.ExecContext(ctx, attend, r.Group, r.Owner, until.UnixMicro()); err != nil {
		return d, err
	}
	err = each(ctx, tx, func(rows *sql.Rows) error {
		var slot int
		var held string
		if err := rows.Scan(&slot, &held); err != nil {
			return err
		}
		if slot == 0 {
			d.Deaths++
			return nil
		}
		var ids []string
		err := json.Unmarshal([]byte(held), &ids)
		d.InHand = append(d.InHand, ids...)
		return err
	}, readDeparted, r.Group, now.UnixMicro(), maxDeparted)
	if err != nil {
		return d, err
	}
	return d, tx.Commit()
}

const hold = `INSERT INTO t_consume_member (consumer_group, owner, slot, in_hand) VALUES (?,?,?,?)
ON CONFLICT (consumer_group, owner, slot) DO UPDATE SET in_hand = excluded.in_hand`

// Hold implements settle.Inbox.
func (in *Inbox) Hold(ctx context.Context, h settle.Hand) error {
	held, err := json.Marshal(h.EventIDs)
	if err == nil {
		_, err = in.s.lease.ExecContext(ctx, hold, h.Group, h.Owner, h.Slot, string(held))
	}
	if err != nil {
		return fmt.Errorf("write down what group %s has in hand: %w", h.Group, err)
	}
	return nil
}

const leaveRoll = `DELETE FROM t_consume_member WHERE consumer_group = ? AND owner = ?`
