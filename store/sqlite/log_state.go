package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

const (
	newestCheckpoint = `SELECT number, readers FROM t_outbox_checkpoint WHERE lane = ? ORDER BY epoch DESC, number DESC LIMIT 1`
	leaderEpoch      = `SELECT epoch FROM t_outbox_lease WHERE lane = ?`
	sideState        = `SELECT EXISTS (SELECT 1 FROM t_outbox_extra), (SELECT min(due_at) FROM t_outbox_delayed),
 (SELECT seq FROM sqlite_sequence WHERE name = 't_outbox_event')`
	eventAt = `SELECT event_id FROM t_outbox_event WHERE id = ?`
)

// Load implements relay.Store.
func (l *Log) Load(ctx context.Context, lease relay.Lease) (relay.State, error) {
	st := relay.State{CursorEvents: map[int64]string{}}
	err := l.s.read(ctx, func(c *conn) error {
		var epoch int64
		err := c.row(leaderEpoch, args(int64(lease.Lane)), func(v []driver.Value) { epoch = integer(v[0]) })
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if epoch != lease.Epoch {
			return settle.ErrFenced
		}
		if err := loadCheckpoint(c, lease.Lane, &st); err != nil {
			return err
		}
		if err := c.row(sideState, nil, func(v []driver.Value) {
			st.ExtraPending, st.NextDelayed, st.MaxID = integer(v[0]) == 1, instant(v[1]), integer(v[2])
		}); err != nil {
			return err
		}
		st.Controls, err = relayControls(c)
		st.Parked = st.Controls.Parked
		return err
	})
	if err != nil {
		return relay.State{}, fmt.Errorf("load outbox state: %w", err)
	}
	return st, nil
}

func loadCheckpoint(c *conn, lane int, st *relay.State) error {
	var readers string
	err := c.row(newestCheckpoint, args(int64(lane)), func(v []driver.Value) {
		st.Checkpoint.Number, readers = integer(v[0]), textOf(v[1])
	})
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(readers), &st.Checkpoint.Readers); err != nil {
		return fmt.Errorf("read checkpoint %d: %w", st.Checkpoint.Number, err)
	}
	for _, r := range st.Checkpoint.Readers {
		st.CursorEvents[r.Cursor] = ""
		err := c.row(eventAt, args(r.Cursor), func(v []driver.Value) { st.CursorEvents[r.Cursor] = textOf(v[0]) })
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
	}
	return nil
}

const (
	controlVersion = `SELECT version FROM settle_control_version`
	controlRows    = `SELECT kind, name FROM settle_control ORDER BY kind, name`
	skipRows       = `SELECT event_id FROM settle_skip WHERE passed_at IS NULL ORDER BY event_id`
	// With min() the other columns are those of the row that has the minimum.
	parkedKeys = `SELECT destination, aggregate_id, count(*), next_at, dead, min(park_no) FROM t_outbox_parked
GROUP BY destination, aggregate_id ORDER BY destination, aggregate_id`
)

// Controls implements relay.Store.
func (l *Log) Controls(ctx context.Context) (relay.Controls, error) {
	var ctl relay.Controls
	err := l.s.read(ctx, func(c *conn) (err error) {
		ctl, err = relayControls(c)
		return err
	})
	if err != nil {
		return relay.Controls{}, fmt.Errorf("read controls: %w", err)
	}
	return ctl, nil
}

func relayControls(c *conn) (ctl relay.Controls, err error) {
	err = c.row(controlVersion, nil, func(v []driver.Value) { ctl.Version = integer(v[0]) })
	if err != nil {
		return ctl, err
	}
	err = c.each(controlRows, nil, func(v []driver.Value) bool {
		ctl.Rows = append(ctl.Rows, settle.Control{Kind: textOf(v[0]), Name: textOf(v[1])})
		return true
	})
	if err != nil {
		return ctl, err
	}
	err = c.each(skipRows, nil, func(v []driver.Value) bool {
		ctl.Skips = append(ctl.Skips, textOf(v[0]))
		return true
	})
	if err != nil {
		return ctl, err
	}
	err = c.each(parkedKeys, nil, func(v []driver.Value) bool {
		ctl.Parked = append(ctl.Parked, relay.ParkedKey{
			Destination: textOf(v[0]), Key: textOf(v[1]), Rows: int(integer(v[2])), HeadDue: instant(v[3]), HeadDead: integer(v[4]) == 1,
		})
		return true
	})
	return ctl, err
}
