package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/govern"
)

var _ govern.Divider = (*Governance)(nil)

const (
	lastDivision = `SELECT generation, first_lane, lanes, begun_at IS NOT NULL FROM t_outbox_division ORDER BY generation DESC LIMIT 1 FOR UPDATE`

	// The highest id that any lane has read.
	highestRead = `SELECT coalesce(max((r.value ->> 'cursor')::bigint), 0) FROM generate_series($1::integer, $2::integer) n
CROSS JOIN LATERAL (SELECT readers FROM t_outbox_checkpoint c WHERE c.lane = n ORDER BY c.epoch DESC, c.number DESC LIMIT 1) newest
CROSS JOIN LATERAL json_array_elements(newest.readers) r`

	addDivision = `INSERT INTO t_outbox_division (generation, first_lane, lanes, barrier, ordered_by, ordered_at) VALUES ($1,$2,$3,$4,$5,$6)`
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
	err := g.act(ctx, a, func(d *deed) error {
		var first, before int
		err := d.tx.QueryRow(ctx, lastDivision).Scan(&is.Generation, &first, &before, &is.Begun)
		if errors.Is(err, pgx.ErrNoRows) {
			return errors.New("t_outbox_division is empty; `settle doctor` says what is missing")
		}
		if err != nil {
			return err
		}
		if is.Lanes, is.Ordered = before, before != lanes; !is.Ordered {
			return nil
		}
		if err := d.tx.QueryRow(ctx, highestRead, first, first+before-1).Scan(&is.Barrier); err != nil {
			return err
		}
		is.Generation, is.Lanes, is.Begun = is.Generation+1, lanes, false
		if _, err := d.tx.Exec(ctx, addDivision, is.Generation, first+before, lanes, is.Barrier, d.By, d.now); err != nil {
			return err
		}
		return d.audit(ctx, govern.ActionDivide, fmt.Sprintf("%d lanes", lanes))
	})
	if err != nil {
		return govern.Division{}, fmt.Errorf("divide outbox: %w", explain(err))
	}
	return is, nil
}

const laneStandings = `SELECT d.first_lane + i, d.generation, i, d.lanes, d.begun_at IS NOT NULL, coalesce(l.owner, ''),
 coalesce(NOT l.clean AND r.expires_at > ` + databaseNow + `, false), coalesce((SELECT max((k.value ->> 'cursor')::bigint) FROM json_array_elements(c.readers) k WHERE coalesce(k.value ->> 'destination', '') = ''), 0)
FROM t_outbox_division d CROSS JOIN LATERAL generate_series(0, d.lanes - 1) i
LEFT JOIN t_outbox_lease l ON l.lane = d.first_lane + i
LEFT JOIN LATERAL (SELECT expires_at FROM settle_renewal WHERE scope = $2 AND name = l.lane::text AND epoch = l.epoch ORDER BY renewal_no DESC LIMIT 1) r ON true
LEFT JOIN LATERAL (SELECT readers FROM t_outbox_checkpoint WHERE lane = d.first_lane + i ORDER BY epoch DESC, number DESC LIMIT 1) c ON true
WHERE d.generation >= (SELECT max(generation) FROM t_outbox_division WHERE begun_at IS NOT NULL) AND NOT coalesce(l.ended, false) ORDER BY 1`

// LaneStandings implements govern.Divider.
func (g *Governance) LaneStandings(ctx context.Context) ([]govern.LaneStanding, error) {
	all := []govern.LaneStanding{}
	err := g.s.view(ctx, func(tx pgx.Tx) error {
		var l govern.LaneStanding
		return each(ctx, tx, []any{&l.Lane, &l.Generation, &l.Index, &l.Of, &l.Begun, &l.Owner, &l.Led, &l.Cursor}, func() {
			if !l.Led {
				l.Owner = ""
			}
			all = append(all, l)
		}, laneStandings, g.s.clock(), relayScope)
	})
	if err != nil {
		return nil, fmt.Errorf("read lanes: %w", explain(err))
	}
	return all, nil
}
