package mysql

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

const (
	newestEpoch = `SELECT coalesce(max(epoch), 0) FROM t_outbox_checkpoint WHERE lane IN (SELECT lane FROM v_outbox_lane)`

	// Where the table is divided its lanes are about level: one tells of all.
	firstLane = `SELECT coalesce(min(lane), 0) FROM v_outbox_lane`

	countRows = `SELECT count(*), coalesce(min(id), 0), coalesce(max(id), 0) FROM ` + logRows

	countAround = `SELECT coalesce(sum(id <= ?), 0), coalesce(sum(id > ?), 0) FROM ` + logRows + ` WHERE ? = '' OR topic = ?`

	countBeside = `SELECT (SELECT count(*) FROM t_outbox_parked), (SELECT count(*) FROM t_outbox_delayed), (SELECT count(*) FROM t_outbox_extra)`

	leaseLanes = `SELECT lane FROM t_outbox_lease ORDER BY lane`
)

// Standing implements govern.Restarter.
func (g *Governance) Standing(ctx context.Context) (govern.Standing, error) {
	var s govern.Standing
	err := snapshot(ctx, g.s.reader, func(tx *sql.Tx) error {
		st, err := g.s.firstPosition(ctx, tx)
		if err != nil {
			return err
		}
		s = govern.Standing{Number: st.Checkpoint.Number, Given: st.MaxID, Readers: []govern.ReaderAt{}, Uncounted: g.s.adopted.uncounted()}
		if other := st.CheckGeneration(); other != nil {
			s.OtherLife = other.Error()
		}
		for _, r := range st.Checkpoint.Readers {
			at := govern.ReaderAt{Destination: r.Destination, Cursor: r.Cursor, CursorEvent: r.CursorEvent, Now: st.CursorEvents[r.Cursor]}
			if err := tx.QueryRowContext(ctx, g.s.reading(countAround), r.Cursor, r.Cursor, r.Destination, r.Destination).Scan(&at.Below, &at.Above); err != nil {
				return err
			}
			s.Readers = append(s.Readers, at)
		}
		if err := tx.QueryRowContext(ctx, g.s.reading(countRows)).Scan(&s.Rows, &s.Lowest, &s.Highest); err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, countBeside).Scan(&s.Parked, &s.Delayed, &s.Listed); err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, newestEpoch).Scan(&s.Epoch); err != nil {
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

// firstPosition is that of the first lane that reads now.
func (s *Store) firstPosition(ctx context.Context, tx *sql.Tx) (relay.State, error) {
	var lane int
	if err := tx.QueryRowContext(ctx, firstLane).Scan(&lane); err != nil {
		return relay.State{}, err
	}
	return s.readPosition(ctx, tx, lane)
}

// leaders are those whose leases run.
func (g *Governance) leaders(ctx context.Context, tx *sql.Tx) (lead []outboxlog.Leader, err error) {
	var lane int
	var lanes []int
	if err := each(ctx, tx, []any{&lane}, func() { lanes = append(lanes, lane) }, leaseLanes); err != nil {
		return nil, err
	}
	for _, lane := range lanes {
		is, err := g.s.Log().readLeader(ctx, tx, lane)
		if err != nil {
			return nil, err
		}
		if !is.Free("") {
			lead = append(lead, is)
		}
	}
	return lead, nil
}
