package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

const (
	newestCheckpoint = `SELECT number, readers::text FROM t_outbox_checkpoint WHERE lane = $1 ORDER BY epoch DESC, number DESC LIMIT 1`
	presentEpoch     = `SELECT epoch, pg_postmaster_start_time() FROM t_outbox_lease WHERE lane = $1`
	// The sequence tells of ids whose rows are gone, the table of ids that a
	// program has chosen itself.
	sideState = `SELECT EXISTS (SELECT 1 FROM t_outbox_extra), (SELECT min(due_at) FROM t_outbox_delayed),
 greatest(pg_sequence_last_value(pg_get_serial_sequence(settle_outbox_table()::text, 'id')::regclass), (SELECT max(id) FROM settle_outbox_row()), 0)`
	eventAt = `SELECT event_id FROM settle_outbox_row() WHERE id = $1`
)

// keepOutbox has a change of partitions wait for the transaction. Said before
// anything is read: a state that is older than a change would lack the rows that
// the change has written anew, and they would count as deleted.
const keepOutbox = `LOCK TABLE ONLY t_outbox_event IN ACCESS SHARE MODE`

// snapshot runs f in a transaction that sees one committed state of the
// database and can't write.
func (s *Store) snapshot(ctx context.Context, f func(tx pgx.Tx) error) error {
	return explain(pgx.BeginTxFunc(ctx, s.own, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if s.partitioned.Load() {
			if _, err := tx.Exec(ctx, keepOutbox); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, readSettings, ms(s.cfg.StatementTimeout), ms(s.cfg.IdleTimeout)); err != nil {
			return err
		}
		return f(tx)
	}))
}

const readSettings = `SELECT set_config('jit', 'off', true), set_config('statement_timeout', $1, true), set_config('idle_in_transaction_session_timeout', $2, true)`

// Load implements relay.Store.
func (l *Log) Load(ctx context.Context, lease relay.Lease) (relay.State, error) {
	st := relay.State{CursorEvents: map[int64]string{}}
	err := l.s.snapshot(ctx, func(tx pgx.Tx) error {
		var epoch int64
		var run pgtype.Timestamptz
		err := tx.QueryRow(ctx, presentEpoch, lease.Lane).Scan(&epoch, &run)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if epoch != lease.Epoch {
			return settle.ErrFenced
		}
		l.loadFrom(run)
		if err := loadCheckpoint(ctx, tx, lease.Lane, &st); err != nil {
			return err
		}
		var next pgtype.Timestamptz
		query, args := l.ofLane(sideState, sideStateOfLane)
		if err := tx.QueryRow(ctx, query, args...).Scan(&st.ExtraPending, &next, &st.MaxID); err != nil {
			return err
		}
		st.NextDelayed = instant(next)
		st.Controls, err = l.relayControls(ctx, tx)
		st.Parked = st.Controls.Parked
		return err
	})
	if err != nil {
		return relay.State{}, fmt.Errorf("load outbox state: %w", err)
	}
	return st, nil
}

func loadCheckpoint(ctx context.Context, tx pgx.Tx, lane int, st *relay.State) error {
	var readers string
	err := tx.QueryRow(ctx, newestCheckpoint, lane).Scan(&st.Checkpoint.Number, &readers)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Checkpoint.Readers, err = outboxlog.UnpackReaders(readers); err != nil {
		return fmt.Errorf("read checkpoint %d: %w", st.Checkpoint.Number, err)
	}
	for _, r := range st.Checkpoint.Readers {
		var event string
		if err := tx.QueryRow(ctx, eventAt, r.Cursor).Scan(&event); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		st.CursorEvents[r.Cursor] = event
	}
	return nil
}

const (
	controlVersion = `SELECT version FROM settle_control_version`
	controlRows    = `SELECT kind, name FROM settle_control ORDER BY kind COLLATE "C", name COLLATE "C"`
	skipRows       = `SELECT event_id FROM settle_skip WHERE passed_at IS NULL ORDER BY event_id COLLATE "C"`
	parkedKeys     = `SELECT k.destination, k.aggregate_id, k.count, p.next_at, p.dead
FROM (SELECT destination, aggregate_id, count(*) AS count, min(park_no) AS head FROM t_outbox_parked GROUP BY destination, aggregate_id) k
JOIN t_outbox_parked p ON p.park_no = k.head ORDER BY k.destination COLLATE "C", k.aggregate_id COLLATE "C"`
)

// Controls implements relay.Store.
func (l *Log) Controls(ctx context.Context) (relay.Controls, error) {
	var ctl relay.Controls
	err := l.s.snapshot(ctx, func(tx pgx.Tx) (err error) {
		ctl, err = l.relayControls(ctx, tx)
		return err
	})
	if err != nil {
		return relay.Controls{}, fmt.Errorf("read controls: %w", err)
	}
	return ctl, nil
}

func (l *Log) relayControls(ctx context.Context, tx pgx.Tx) (ctl relay.Controls, err error) {
	if err := laneEnd(ctx, tx, l.lane().Number, &ctl); err != nil {
		return ctl, err
	}
	if err := tx.QueryRow(ctx, controlVersion).Scan(&ctl.Version); err != nil {
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
	var k relay.ParkedKey
	var due pgtype.Timestamptz
	query, args := l.ofLane(parkedKeys, parkedKeysOfLane)
	err = each(ctx, tx, []any{&k.Destination, &k.Key, &k.Rows, &due, &k.HeadDead}, func() {
		k.HeadDue = instant(due)
		ctl.Parked = append(ctl.Parked, k)
	}, query, args...)
	return ctl, err
}

// each runs a query and calls do when a row was read into what is given.
func each(ctx context.Context, tx pgx.Tx, into []any, do func(), query string, args ...any) error {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, into, func() error {
		do()
		return nil
	})
	return err
}
