package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
)

const (
	newestEpoch = `SELECT coalesce(max(epoch), 0) FROM t_outbox_checkpoint WHERE lane = 0`

	countRows = `SELECT count(*), coalesce(min(id), 0), coalesce(max(id), 0) FROM t_outbox_event`

	countAround = `SELECT coalesce(sum(id <= ?1), 0), coalesce(sum(id > ?1), 0) FROM t_outbox_event WHERE ?2 = '' OR topic = ?2`

	countBeside = `SELECT (SELECT count(*) FROM t_outbox_parked), (SELECT count(*) FROM t_outbox_delayed), (SELECT count(*) FROM t_outbox_extra)`
)

// Standing implements govern.Restarter.
func (g *Governance) Standing(ctx context.Context) (govern.Standing, error) {
	s, err := g.standing(ctx)
	if err != nil {
		return govern.Standing{}, fmt.Errorf("read where the relay stands: %w", err)
	}
	return s, nil
}

func (g *Governance) standing(ctx context.Context) (s govern.Standing, err error) {
	tx, err := g.s.snapshot(ctx)
	if err != nil {
		return s, err
	}
	defer func() { _ = tx.Rollback() }()
	st, err := readPosition(ctx, tx)
	if err != nil {
		return s, err
	}
	s = govern.Standing{Number: st.Checkpoint.Number, Given: st.MaxID, Readers: []govern.ReaderAt{}}
	if other := st.CheckGeneration(); other != nil {
		s.OtherLife = other.Error()
	}
	for _, r := range st.Checkpoint.Readers {
		at := govern.ReaderAt{Destination: r.Destination, Cursor: r.Cursor, CursorEvent: r.CursorEvent, Now: st.CursorEvents[r.Cursor]}
		if err := tx.QueryRowContext(ctx, countAround, r.Cursor, r.Destination).Scan(&at.Below, &at.Above); err != nil {
			return s, err
		}
		s.Readers = append(s.Readers, at)
	}
	if err := tx.QueryRowContext(ctx, countRows).Scan(&s.Rows, &s.Lowest, &s.Highest); err != nil {
		return s, err
	}
	if err := tx.QueryRowContext(ctx, countBeside).Scan(&s.Parked, &s.Delayed, &s.Listed); err != nil {
		return s, err
	}
	if err := tx.QueryRowContext(ctx, newestEpoch).Scan(&s.Epoch); err != nil {
		return s, err
	}
	lead, err := readLease(ctx, g.s.lease, 0)
	if err == nil && g.s.now().Before(lead.expires) {
		s.Leader, s.Until = lead.owner, lead.expires
	}
	return s, err
}

// readPosition is the newest checkpoint, beside the table as it is.
func readPosition(ctx context.Context, tx *sql.Tx) (relay.State, error) {
	st := relay.State{CursorEvents: map[int64]string{}}
	var readers string
	err := tx.QueryRowContext(ctx, newestCheckpoint, 0).Scan(&st.Checkpoint.Number, &readers)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return st, err
	}
	if err == nil {
		if err := json.Unmarshal([]byte(readers), &st.Checkpoint.Readers); err != nil {
			return st, fmt.Errorf("read checkpoint %d: %w", st.Checkpoint.Number, err)
		}
	}
	for _, r := range st.Checkpoint.Readers {
		if st.CursorEvents[r.Cursor], err = eventOf(ctx, tx, r.Cursor); err != nil {
			return st, err
		}
	}
	var extra bool
	var next, highest sql.NullInt64
	err = tx.QueryRowContext(ctx, sideState).Scan(&extra, &next, &highest)
	st.MaxID = highest.Int64
	return st, err
}

// eventOf returns the event at an id, "" where there is none.
func eventOf(ctx context.Context, tx *sql.Tx, id int64) (event string, err error) {
	err = tx.QueryRowContext(ctx, eventAt, id).Scan(&event)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return event, err
}
