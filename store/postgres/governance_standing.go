package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
)

const (
	newestEpoch = `SELECT coalesce(max(epoch), 0) FROM t_outbox_checkpoint WHERE lane IN (SELECT lane FROM v_outbox_lane)`

	// Where the table is divided its lanes are about level: one tells of all.
	firstLane = `SELECT coalesce(min(lane), 0) FROM v_outbox_lane`

	countRows = `SELECT count(*), coalesce(min(id), 0), coalesce(max(id), 0) FROM settle_outbox_row() WHERE readable`

	countAround = `SELECT count(*) FILTER (WHERE id <= $1), count(*) FILTER (WHERE id > $1) FROM settle_outbox_row() WHERE readable AND ($2 = '' OR topic = $2)`

	countBeside = `SELECT (SELECT count(*) FROM t_outbox_parked), (SELECT count(*) FROM t_outbox_delayed), (SELECT count(*) FROM t_outbox_extra)`

	leaseLanes = `SELECT lane FROM t_outbox_lease ORDER BY lane`

	// Rows are counted, and matched with what waits; that may take a while.
	slowly = `SELECT set_config('statement_timeout', '10min', true), set_config('jit', 'off', true)`
)

// Standing implements govern.Restarter.
func (g *Governance) Standing(ctx context.Context) (govern.Standing, error) {
	var s govern.Standing
	err := g.s.view(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, slowly); err != nil {
			return err
		}
		st, err := readPosition(ctx, tx)
		if err != nil {
			return err
		}
		s = govern.Standing{Number: st.Checkpoint.Number, Given: st.MaxID, Readers: []govern.ReaderAt{}, Uncounted: g.s.adopted.uncounted()}
		if other := st.CheckGeneration(); other != nil {
			s.OtherLife = other.Error()
		}
		for _, r := range st.Checkpoint.Readers {
			at := govern.ReaderAt{Destination: r.Destination, Cursor: r.Cursor, CursorEvent: r.CursorEvent, Now: st.CursorEvents[r.Cursor]}
			if err := tx.QueryRow(ctx, countAround, r.Cursor, r.Destination).Scan(&at.Below, &at.Above); err != nil {
				return err
			}
			s.Readers = append(s.Readers, at)
		}
		if err := tx.QueryRow(ctx, countRows).Scan(&s.Rows, &s.Lowest, &s.Highest); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, countBeside).Scan(&s.Parked, &s.Delayed, &s.Listed); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, newestEpoch).Scan(&s.Epoch); err != nil {
			return err
		}
		leads, err := g.leaders(ctx, tx)
		for _, l := range leads {
			s.Leader, s.Until = l.Owner, l.Expires
		}
		return err
	})
	if err != nil {
		return govern.Standing{}, fmt.Errorf("read where the relay stands: %w", explain(err))
	}
	return s, nil
}

// uncounted says which rows a restart neither counts nor sends.
func (a *adoption) uncounted() string {
	if a == nil {
		return ""
	}
	return a.Uncounted(a.plainName())
}

// readPosition is the newest checkpoint, beside the table as it is.
func readPosition(ctx context.Context, tx pgx.Tx) (relay.State, error) {
	st := relay.State{CursorEvents: map[int64]string{}}
	var lane int
	if err := tx.QueryRow(ctx, firstLane).Scan(&lane); err != nil {
		return st, err
	}
	if err := loadCheckpoint(ctx, tx, lane, &st); err != nil {
		return st, err
	}
	var next pgtype.Timestamptz
	return st, tx.QueryRow(ctx, sideState).Scan(&st.ExtraPending, &next, &st.MaxID)
}

// leaders are those whose leases run.
func (g *Governance) leaders(ctx context.Context, tx pgx.Tx) (lead []leader, err error) {
	var lane int
	var lanes []int
	if err := each(ctx, tx, []any{&lane}, func() { lanes = append(lanes, lane) }, leaseLanes); err != nil {
		return nil, err
	}
	for _, lane := range lanes {
		is, err := g.s.Log().readLeader(ctx, tx, lane, "")
		if err != nil {
			return nil, err
		}
		if !is.Free("") {
			lead = append(lead, is)
		}
	}
	return lead, nil
}
