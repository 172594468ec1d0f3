package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/outboxlog"
)

var _ govern.Divider = (*Governance)(nil)

const (
	lastDivision = `SELECT generation, lanes, begun_at IS NOT NULL FROM t_outbox_division ORDER BY generation DESC LIMIT 1 FOR UPDATE`

	lastLane = `SELECT coalesce(max(lane), -1) FROM t_outbox_lane`

	addDivision = `INSERT INTO t_outbox_division (generation, lanes, barrier, ordered_by, ordered_at) VALUES (?,?,?,?,?)`

	addLane = `INSERT INTO t_outbox_lane (lane, generation, lane_index, lanes) VALUES (?,?,?,?)`
)

// Divide implements govern.Divider.
//
// Crash here: nothing is ordered before the commit. After it the relays go
// through with it by themselves.
func (g *Governance) Divide(ctx context.Context, a govern.Act, lanes int) (govern.Division, error) {
	if lanes < 1 || lanes > govern.MaxLanes {
		return govern.Division{}, fmt.Errorf("divide outbox: want 1 to %d lanes, got %d", govern.MaxLanes, lanes)
	}
	var is govern.Division
	err := g.act(ctx, a, func(d *deed) (err error) {
		is, err = divide(ctx, d, lanes)
		return err
	})
	if err != nil {
		return govern.Division{}, fmt.Errorf("divide outbox: %w", err)
	}
	return is, nil
}

func divide(ctx context.Context, d *deed, lanes int) (is govern.Division, err error) {
	err = d.tx.QueryRowContext(ctx, lastDivision).Scan(&is.Generation, &is.Lanes, &is.Begun)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return is, errors.New("t_outbox_division is empty; `settle doctor` says what is missing")
	case err != nil || is.Lanes == lanes:
		return is, err
	}
	// The highest id that any of these lanes has read.
	_, ends, err := endsOf(ctx, d.tx, is.Generation)
	if err != nil {
		return is, err
	}
	for _, end := range ends {
		for _, r := range end.Readers {
			is.Barrier = max(is.Barrier, r.Cursor)
		}
	}
	is.Generation, is.Lanes, is.Begun, is.Ordered = is.Generation+1, lanes, false, true
	if _, err := d.do(ctx, addDivision, is.Generation, lanes, is.Barrier, d.By, d.now); err != nil {
		return is, err
	}
	var last int
	if err := d.tx.QueryRowContext(ctx, lastLane).Scan(&last); err != nil {
		return is, err
	}
	for i := range lanes {
		if _, err := d.do(ctx, addLane, last+1+i, is.Generation, i, lanes); err != nil {
			return is, err
		}
	}
	if _, err := d.do(ctx, bumpControls); err != nil {
		return is, err
	}
	return is, d.audit(ctx, govern.ActionDivide, fmt.Sprintf("%d lanes", lanes))
}

const laneStandings = `SELECT n.lane, n.generation, n.lane_index, n.lanes, d.begun_at IS NOT NULL, coalesce(l.owner, ''),
 coalesce(NOT l.clean AND (SELECT r.expires_at FROM settle_renewal r WHERE r.scope = ? AND r.name = CAST(n.lane AS CHAR) AND r.epoch = l.epoch ORDER BY r.renewal_no DESC LIMIT 1) > ` + databaseNow + `, false),
 coalesce((SELECT c.readers FROM t_outbox_checkpoint c WHERE c.lane = n.lane ORDER BY c.epoch DESC, c.number DESC LIMIT 1), '[]')
FROM t_outbox_lane n JOIN t_outbox_division d ON d.generation = n.generation LEFT JOIN t_outbox_lease l ON l.lane = n.lane
WHERE n.generation >= (SELECT max(generation) FROM t_outbox_division WHERE begun_at IS NOT NULL) AND NOT coalesce(l.ended, false) ORDER BY n.lane`

// LaneStandings implements govern.Divider.
func (g *Governance) LaneStandings(ctx context.Context) ([]govern.LaneStanding, error) {
	all := []govern.LaneStanding{}
	var l govern.LaneStanding
	var packed string
	var wrong error
	err := each(ctx, g.s.reader, []any{&l.Lane, &l.Generation, &l.Index, &l.Of, &l.Begun, &l.Owner, &l.Led, &packed}, func() {
		if !l.Led {
			l.Owner = ""
		}
		readers, err := outboxlog.UnpackReaders(packed)
		wrong = errors.Join(wrong, err)
		l.Cursor = readerOf("", readers).Cursor
		all = append(all, l)
	}, laneStandings, relayScope, g.s.clock())
	if err = errors.Join(err, wrong); err != nil {
		return nil, fmt.Errorf("read lanes: %w", explain(err))
	}
	return all, nil
}
