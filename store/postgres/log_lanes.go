package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

var _ relay.Lanes = (*Log)(nil)

// Lanes that have ended are left out, and so are the generations before the one
// that reads now: all of theirs have.
const livingLanes = `SELECT d.first_lane + i, d.generation, i, d.lanes FROM t_outbox_division d CROSS JOIN LATERAL generate_series(0, d.lanes - 1) i
WHERE d.generation >= (SELECT max(generation) FROM t_outbox_division WHERE begun_at IS NOT NULL)
AND NOT EXISTS (SELECT 1 FROM t_outbox_lease l WHERE l.lane = d.first_lane + i AND l.ended) ORDER BY 1`

// crewScope is what the lives of crews are filed under, one row for each.
const crewScope = "crew"

const (
	noteCrew = `WITH here AS (UPDATE settle_renewal SET expires_at = ` + databaseNow + ` + $4::bigint * interval '1 microsecond' WHERE scope = $2 AND name = $3 RETURNING 1),
 gone AS (DELETE FROM settle_renewal WHERE scope = $2 AND name <> $3 AND expires_at < ` + databaseNow + ` - interval '1 hour')
INSERT INTO settle_renewal (scope, name, epoch, owner, expires_at)
SELECT $2, $3, 0, $3, ` + databaseNow + ` + $4::bigint * interval '1 microsecond' WHERE NOT EXISTS (SELECT 1 FROM here)`

	countCrews = `SELECT count(*) FROM settle_renewal WHERE scope = $2 AND expires_at > ` + databaseNow
)

// Lanes implements relay.Lanes.
func (l *Log) Lanes(ctx context.Context, crew string, ttl time.Duration) ([]relay.Lane, int, error) {
	var all []relay.Lane
	err := l.s.snapshot(ctx, func(tx pgx.Tx) error {
		var lane relay.Lane
		return each(ctx, tx, []any{&lane.Number, &lane.Generation, &lane.Index, &lane.Of}, func() { all = append(all, lane) }, livingLanes)
	})
	crews := 1
	if err == nil && len(all) > 1 {
		var b pgx.Batch
		b.Queue(noteCrew, l.s.clock(), crewScope, crew, ttl.Microseconds())
		b.Queue(countCrews, l.s.clock(), crewScope).QueryRow(func(row pgx.Row) error { return row.Scan(&crews) })
		err = l.s.own.SendBatch(ctx, &b).Close()
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read lanes: %w", explain(err))
	}
	return all, max(1, crews), nil
}

// lane is the one that this Log leads; where it leads none, that of a table
// which was never divided.
func (l *Log) lane() relay.Lane {
	lane := l.holding().lane
	lane.Of = max(1, lane.Of)
	return lane
}

// laneStanding is a lane, and whether it may be led. ready is whether it might
// begin, if it has not.
type laneStanding struct {
	relay.Lane
	begun, ready, ended bool
}

const readLane = `SELECT d.generation, $1 - d.first_lane, d.lanes, d.begun_at IS NOT NULL,
 NOT EXISTS (SELECT 1 FROM t_outbox_division p CROSS JOIN LATERAL generate_series(p.first_lane, p.first_lane + p.lanes - 1) i
  WHERE p.generation = d.generation - 1 AND NOT EXISTS (SELECT 1 FROM t_outbox_lease l WHERE l.lane = i AND l.ended)),
 coalesce((SELECT ended FROM t_outbox_lease WHERE lane = $1), false)
FROM t_outbox_division d WHERE $1 >= d.first_lane AND $1 < d.first_lane + d.lanes`

func laneNow(ctx context.Context, tx pgx.Tx, number int) (laneStanding, error) {
	is := laneStanding{Lane: relay.Lane{Number: number}}
	err := tx.QueryRow(ctx, readLane, number).Scan(&is.Generation, &is.Index, &is.Of, &is.begun, &is.ready, &is.ended)
	if errors.Is(err, pgx.ErrNoRows) {
		err = errors.New("the outbox has no such lane")
	}
	return is, err
}

// divided tells where a lane is to end, if it is.
const divided = `SELECT n.barrier FROM t_outbox_division d JOIN t_outbox_division n ON n.generation = d.generation + 1
WHERE $1 >= d.first_lane AND $1 < d.first_lane + d.lanes`

func laneEnd(ctx context.Context, tx pgx.Tx, number int, ctl *relay.Controls) error {
	err := tx.QueryRow(ctx, divided, number).Scan(&ctl.Barrier)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	ctl.Divided = err == nil
	return err
}

const (
	// The first of a generation does it, and the others wait for it here.
	lockDivision = `SELECT begun_at IS NOT NULL, first_lane, lanes FROM t_outbox_division WHERE generation = $1 FOR UPDATE`

	endedLanes = `SELECT d.first_lane + i, d.generation, i, d.lanes, d.begun_at IS NOT NULL AND coalesce(l.ended, false), coalesce(c.readers::text, '[]')
FROM t_outbox_division d CROSS JOIN LATERAL generate_series(0, d.lanes - 1) i
LEFT JOIN t_outbox_lease l ON l.lane = d.first_lane + i
LEFT JOIN LATERAL (SELECT readers FROM t_outbox_checkpoint WHERE lane = d.first_lane + i ORDER BY epoch DESC, number DESC LIMIT 1) c ON true
WHERE d.generation = $1`

	undecidedRows = `SELECT e.id, e.aggregate_id, e.topic FROM settle_outbox_row() e WHERE e.id = ANY($1) AND e.readable
UNION ALL SELECT e.id, e.aggregate_id, e.topic FROM unnest($2::bigint[], $3::bigint[]) AS run(first_id, last_id) CROSS JOIN LATERAL
 (SELECT id, aggregate_id, topic FROM settle_outbox_row() WHERE id BETWEEN run.first_id AND run.last_id AND readable) e`

	beginDivision = `UPDATE t_outbox_division SET begun_at = now() WHERE generation = $1`
)

// begin lets a generation of lanes begin when all lanes of the one before have
// ended: each gets a checkpoint that says what those have left. It reports
// whether the generation may be led.
//
// Crash here: before the commit nothing has begun, and the next who asks begins
// it; after it every lane has its checkpoint.
func (l *Log) begin(ctx context.Context, generation int) (begun bool, err error) {
	err = pgx.BeginTxFunc(ctx, l.s.own, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, writeSettings, ms(l.s.cfg.StatementTimeout), ms(l.s.cfg.LockTimeout), ms(l.s.cfg.IdleTimeout)); err != nil {
			return err
		}
		var first, lanes int
		if err := tx.QueryRow(ctx, lockDivision, generation).Scan(&begun, &first, &lanes); err != nil || begun {
			return err
		}
		ends, err := endsOf(ctx, tx, generation-1)
		if err != nil || ends == nil {
			return err
		}
		found, err := findRows(ctx, tx, relay.Undecided(ends))
		if err != nil {
			return err
		}
		readers := outboxlog.PackReaders(relay.Merge(ends, found))
		for lane := first; lane < first+lanes; lane++ {
			if _, err := tx.Exec(ctx, makeLease, lane); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, addCheckpoint, lane, 0, 1, readers, nil, nil, nil, l.s.now().UTC()); err != nil {
				return err
			}
		}
		begun = true
		_, err = tx.Exec(ctx, beginDivision, generation)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("begin generation %d of lanes: %w", generation, err)
	}
	return begun, nil
}

// endsOf returns where the lanes of a generation have ended; none while one of
// them has not.
func endsOf(ctx context.Context, tx pgx.Tx, generation int) ([]relay.End, error) {
	var ends []relay.End
	all := true
	var lane relay.Lane
	var ended bool
	var packed string
	var wrong error
	err := each(ctx, tx, []any{&lane.Number, &lane.Generation, &lane.Index, &lane.Of, &ended, &packed}, func() {
		readers, err := outboxlog.UnpackReaders(packed)
		wrong = errors.Join(wrong, err)
		ends = append(ends, relay.End{Lane: lane, Readers: readers})
		all = all && ended
	}, endedLanes, generation)
	if err = errors.Join(err, wrong); err != nil || !all {
		return nil, err
	}
	return ends, nil
}

func findRows(ctx context.Context, tx pgx.Tx, ids []int64) (map[int64]relay.Found, error) {
	found := map[int64]relay.Found{}
	single, first, last := splitHoles(ids)
	var id int64
	var key, topic *string
	err := each(ctx, tx, []any{&id, &key, &topic}, func() {
		found[id] = relay.Found{Key: valueOf(key), Destination: valueOf(topic)}
	}, undecidedRows, single, first, last)
	return found, err
}

func valueOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
