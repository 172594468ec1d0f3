package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

const (
	newestCheckpoint = `SELECT number, readers FROM t_outbox_checkpoint WHERE lane = ? ORDER BY epoch DESC, number DESC LIMIT 1`
	presentEpoch     = `SELECT coalesce((SELECT epoch FROM t_outbox_lease WHERE lane = ?), 0), coalesce(@settle_run, '')`
	sideState        = `SELECT EXISTS (SELECT 1 FROM t_outbox_extra), (SELECT min(due_at) FROM t_outbox_delayed)`
	sideStateOfLane  = `SELECT EXISTS (SELECT 1 FROM t_outbox_extra x LEFT JOIN t_outbox_event e ON e.id = x.id WHERE x.id > 0%s), (SELECT min(t.due_at) FROM t_outbox_delayed t WHERE t.id > 0%s)`
	eventAt          = `SELECT event_id FROM t_outbox_event WHERE id = ?`

	// A commit that replicas must have may be seen before they have it.
	replication = `SHOW GLOBAL VARIABLES WHERE (Variable_name LIKE 'rpl\_semi\_sync\_%\_enabled' OR Variable_name = 'wsrep_on') AND Value IN ('ON', '1')`
)

// snapshot runs f in a transaction that sees one committed state of the
// database and can't write.
func snapshot(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Load implements relay.Store.
func (l *Log) Load(ctx context.Context, lease relay.Lease) (relay.State, error) {
	var st relay.State
	var run string
	var replicated bool
	err := snapshot(ctx, l.s.own, func(tx *sql.Tx) error {
		var epoch int64
		if err := tx.QueryRowContext(ctx, presentEpoch, lease.Lane).Scan(&epoch, &run); err != nil {
			return err
		}
		if epoch != lease.Epoch {
			return settle.ErrFenced
		}
		var err error
		if st, err = l.s.readPosition(ctx, tx, lease.Lane); err != nil {
			return err
		}
		var next timeColumn
		query := sideState
		if l.lane().Of > 1 {
			query = fmt.Sprintf(sideStateOfLane, l.ownRows("e.id", "e.aggregate_id"), l.ownRows("t.id", "t.aggregate_id"))
		}
		if err := tx.QueryRowContext(ctx, query).Scan(&st.ExtraPending, &next); err != nil {
			return err
		}
		st.NextDelayed = next.Time
		if st.Controls, err = l.relayControls(ctx, tx); err != nil {
			return err
		}
		st.Parked = st.Controls.Parked
		var name, value string
		return each(ctx, tx, []any{&name, &value}, func() { replicated = true }, replication)
	})
	if err != nil {
		return relay.State{}, fmt.Errorf("load outbox state: %w", explain(err))
	}
	l.loadFrom(run, replicated, &st)
	return st, nil
}

// loadFrom takes note of where the relay stands: what it has open it may not
// have seen.
func (l *Log) loadFrom(run string, replicated bool, st *relay.State) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.run, l.replicated, l.looks = run, replicated, false
	l.top = l.missing.Begin(st.Checkpoint.Readers)
}

// readPosition is the newest checkpoint of a lane, beside the table as it is.
func (s *Store) readPosition(ctx context.Context, tx *sql.Tx, lane int) (relay.State, error) {
	st := relay.State{CursorEvents: map[int64]string{}}
	if err := tx.QueryRowContext(ctx, s.reading(givenUpTo)).Scan(&st.MaxID); err != nil {
		return st, err
	}
	var readers string
	err := tx.QueryRowContext(ctx, newestCheckpoint, lane).Scan(&st.Checkpoint.Number, &readers)
	if errors.Is(err, sql.ErrNoRows) {
		return st, nil
	}
	if err != nil {
		return st, err
	}
	if st.Checkpoint.Readers, err = outboxlog.UnpackReaders(readers); err != nil {
		return st, fmt.Errorf("read checkpoint %d: %w", st.Checkpoint.Number, err)
	}
	for _, r := range st.Checkpoint.Readers {
		var event string
		if err := tx.QueryRowContext(ctx, eventAt, r.Cursor).Scan(&event); err != nil && !errors.Is(err, sql.ErrNoRows) {
			return st, err
		}
		st.CursorEvents[r.Cursor] = fit(event)
	}
	return st, nil
}

const (
	controlVersion = `SELECT version FROM settle_control_version`
	controlRows    = `SELECT kind, name FROM settle_control ORDER BY kind, name`
	skipRows       = `SELECT event_id FROM settle_skip WHERE passed_at IS NULL ORDER BY event_id`
	parkedKeys     = `SELECT k.destination, k.aggregate_id, k.parked, p.next_at, p.dead
FROM (SELECT destination, aggregate_id, count(*) AS parked, min(park_no) AS head FROM t_outbox_parked%s GROUP BY destination, aggregate_id) k
STRAIGHT_JOIN t_outbox_parked p ON p.park_no = k.head ORDER BY k.destination, k.aggregate_id`
)

// Controls implements relay.Store.
func (l *Log) Controls(ctx context.Context) (relay.Controls, error) {
	var ctl relay.Controls
	err := snapshot(ctx, l.s.own, func(tx *sql.Tx) (err error) {
		ctl, err = l.relayControls(ctx, tx)
		return err
	})
	if err != nil {
		return relay.Controls{}, fmt.Errorf("read controls: %w", explain(err))
	}
	return ctl, nil
}

func (l *Log) relayControls(ctx context.Context, tx *sql.Tx) (ctl relay.Controls, err error) {
	if err := laneEnd(ctx, tx, l.lane().Number, &ctl); err != nil {
		return ctl, err
	}
	if err := tx.QueryRowContext(ctx, controlVersion).Scan(&ctl.Version); err != nil {
		return ctl, err
	}
	var row settle.Control
	err = each(ctx, tx, []any{&row.Kind, &row.Name}, func() { ctl.Rows = append(ctl.Rows, row) }, controlRows)
	if err != nil {
		return ctl, err
	}
	var skip string
	err = each(ctx, tx, []any{&skip}, func() { ctl.Skips = append(ctl.Skips, skip) }, skipRows)
	if err != nil {
		return ctl, err
	}
	own := l.ownRows("0", "aggregate_id")
	if own != "" {
		own = " WHERE true" + own
	}
	var k relay.ParkedKey
	var due timeColumn
	err = each(ctx, tx, []any{&k.Destination, &k.Key, &k.Rows, &due, &k.HeadDead}, func() {
		k.HeadDue = due.Time
		ctl.Parked = append(ctl.Parked, k)
	}, fmt.Sprintf(parkedKeys, own))
	return ctl, err
}
