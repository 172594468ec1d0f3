package mysql

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/settlemq/settle"
)

const (
	// Read without a lock, because others attend and hold meanwhile.
	readRoll = `SELECT owner, expires_at <= ` + databaseNow + `, expires_at <= ` + databaseNow + ` - INTERVAL ? MICROSECOND, expires_at > ` + databaseNow + ` + INTERVAL ? MICROSECOND
FROM t_consume_member WHERE consumer_group = ? AND slot = 0 ORDER BY expires_at DESC`

	leaveRoll = `DELETE FROM t_consume_member WHERE consumer_group = ? AND owner = ?`

	attend = `INSERT INTO t_consume_member (consumer_group, owner, slot, expires_at) VALUES (?, ?, 0, ` + databaseNow + ` + INTERVAL ? MICROSECOND)
ON DUPLICATE KEY UPDATE expires_at = VALUES(expires_at)`

	readHands = `SELECT in_hand FROM t_consume_member WHERE consumer_group = ? AND owner = ? AND slot > 0 ORDER BY slot`

	// maxDeparted bounds the members that died whose hands are read.
	maxDeparted = 100
)

// roll is what an Attend finds.
type roll struct {
	dead, forgotten, ahead []string
}

// Attend implements settle.Inbox.
func (in *Inbox) Attend(ctx context.Context, r settle.Attendance) (settle.Departed, error) {
	var d settle.Departed
	err := in.s.write(ctx, in.s.own, func(tx *sql.Tx) error {
		found, err := in.roll(ctx, tx, r)
		if err != nil {
			return err
		}
		for _, owner := range found.forgotten {
			if _, err := tx.ExecContext(ctx, leaveRoll, r.Group, owner); err != nil {
				return err
			}
		}
		// Leases written before the clock was set back are cut to a lease time from now.
		for _, owner := range append(found.ahead, r.Owner) {
			if _, err := tx.ExecContext(ctx, attend, r.Group, owner, in.s.clock(), r.TTL.Microseconds()); err != nil {
				return err
			}
		}
		d = settle.Departed{Deaths: len(found.dead)}
		for _, owner := range found.dead[:min(len(found.dead), maxDeparted)] {
			if err := readHand(ctx, tx, r.Group, owner, &d); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return settle.Departed{}, fmt.Errorf("attend group %s: %w", r.Group, err)
	}
	return d, nil
}

func (in *Inbox) roll(ctx context.Context, tx *sql.Tx, r settle.Attendance) (found roll, err error) {
	var owner string
	var dead, forgotten, ahead bool
	clock := in.s.clock()
	err = each(ctx, tx, []any{&owner, &dead, &forgotten, &ahead}, func() {
		switch {
		case owner == r.Owner:
		case forgotten:
			found.forgotten = append(found.forgotten, owner)
		case dead:
			found.dead = append(found.dead, owner)
		case ahead:
			found.ahead = append(found.ahead, owner)
		}
	}, readRoll, clock, clock, r.Remember.Microseconds(), clock, (r.TTL + leap).Microseconds(), r.Group)
	return found, err
}

func readHand(ctx context.Context, tx *sql.Tx, group, owner string, d *settle.Departed) error {
	var held string
	var hands []string
	if err := each(ctx, tx, []any{&held}, func() { hands = append(hands, held) }, readHands, group, owner); err != nil {
		return err
	}
	for _, held := range hands {
		var ids []string
		if err := json.Unmarshal([]byte(held), &ids); err != nil {
			return fmt.Errorf("read what %s had in hand: %w", owner, err)
		}
		d.InHand = slices.Concat(d.InHand, ids)
	}
	return nil
}

const hold = `INSERT INTO t_consume_member (consumer_group, owner, slot, in_hand) VALUES (?, ?, ?, ?)
ON DUPLICATE KEY UPDATE in_hand = VALUES(in_hand)`

// Hold implements settle.Inbox.
func (in *Inbox) Hold(ctx context.Context, h settle.Hand) error {
	held, err := json.Marshal(h.EventIDs)
	if err == nil {
		err = in.s.write(ctx, in.s.own, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, hold, h.Group, h.Owner, h.Slot, string(held))
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("write down what group %s has in hand: %w", h.Group, err)
	}
	return nil
}
