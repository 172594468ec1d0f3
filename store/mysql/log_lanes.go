package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

var _ relay.Lanes = (*Log)(nil)

// Lanes that have ended are left out, and so are the generations before the one
// that reads now: all of theirs have.
const livingLanes = `SELECT n.lane, n.generation, n.lane_index, n.lanes FROM t_outbox_lane n LEFT JOIN t_outbox_lease l ON l.lane = n.lane
WHERE n.generation >= (SELECT max(generation) FROM t_outbox_division WHERE begun_at IS NOT NULL) AND NOT coalesce(l.ended, false) ORDER BY n.lane`

// crewScope is what the lives of crews are filed under, one row for each.
const crewScope = "crew"

const (
	noteCrew = `UPDATE settle_renewal SET expires_at = ` + databaseNow + ` + INTERVAL ? MICROSECOND WHERE scope = ? AND name = ? AND epoch = 0`

	countCrews = `SELECT coalesce(sum(r.expires_at > c.now), 0), coalesce(sum(r.expires_at < c.now - INTERVAL 1 HOUR), 0)
FROM settle_renewal r CROSS JOIN (SELECT ` + databaseNow + ` AS now) c WHERE r.scope = ?`

	forgetCrews = `DELETE FROM settle_renewal WHERE scope = ? AND expires_at < ` + databaseNow + ` - INTERVAL 1 HOUR`
)

// Lanes implements relay.Lanes.
func (l *Log) Lanes(ctx context.Context, crew string, ttl time.Duration) ([]relay.Lane, int, error) {
	var all []relay.Lane
	var lane relay.Lane
	err := each(ctx, l.s.own, []any{&lane.Number, &lane.Generation, &lane.Index, &lane.Of}, func() { all = append(all, lane) }, livingLanes)
	crews := 1
	if err == nil && len(all) > 1 {
		crews, err = l.noteCrew(ctx, crew, ttl)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read lanes: %w", explain(err))
	}
	return all, max(1, crews), nil
}

func (l *Log) noteCrew(ctx context.Context, crew string, ttl time.Duration) (crews int, err error) {
	n, err := affected(l.s.own.ExecContext(ctx, noteCrew, l.s.clock(), ttl.Microseconds(), crewScope, crew))
	if err == nil && n == 0 {
		_, err = l.s.own.ExecContext(ctx, installRenewal, crewScope, crew, 0, crew, l.s.clock(), ttl.Microseconds())
	}
	if err != nil {
		return 0, err
	}
	var old int
	if err := l.s.own.QueryRowContext(ctx, countCrews, l.s.clock(), crewScope).Scan(&crews, &old); err != nil {
		return 0, err
	}
	if old > 0 {
		_, err = l.s.own.ExecContext(ctx, forgetCrews, crewScope, l.s.clock())
	}
	return crews, err
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

const readLane = `SELECT n.generation, n.lane_index, n.lanes, d.begun_at IS NOT NULL,
 NOT EXISTS (SELECT 1 FROM t_outbox_lane p LEFT JOIN t_outbox_lease l ON l.lane = p.lane WHERE p.generation = n.generation - 1 AND NOT coalesce(l.ended, false)),
 coalesce((SELECT l.ended FROM t_outbox_lease l WHERE l.lane = n.lane), false)
FROM t_outbox_lane n JOIN t_outbox_division d ON d.generation = n.generation WHERE n.lane = ?`

func laneNow(ctx context.Context, db querier, number int) (laneStanding, error) {
	is := laneStanding{Lane: relay.Lane{Number: number}}
	err := db.QueryRowContext(ctx, readLane, number).Scan(&is.Generation, &is.Index, &is.Of, &is.begun, &is.ready, &is.ended)
	if errors.Is(err, sql.ErrNoRows) {
		err = errors.New("the outbox has no such lane")
	}
	return is, err
}

// divided tells where a lane is to end, if it is.
const divided = `SELECT d.barrier FROM t_outbox_lane n JOIN t_outbox_division d ON d.generation = n.generation + 1 WHERE n.lane = ?`

func laneEnd(ctx context.Context, tx *sql.Tx, number int, ctl *relay.Controls) error {
	err := tx.QueryRowContext(ctx, divided, number).Scan(&ctl.Barrier)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	ctl.Divided = err == nil
	return err
}

const (
	// The first of a generation does it, and the others wait for it here.
	lockDivision = `SELECT begun_at IS NOT NULL FROM t_outbox_division WHERE generation = ? FOR UPDATE`

	lanesOf = `SELECT lane FROM t_outbox_lane WHERE generation = ? ORDER BY lane`

	endedLanes = `SELECT n.lane, n.generation, n.lane_index, n.lanes, d.begun_at IS NOT NULL AND coalesce(l.ended, false),
 coalesce((SELECT c.readers FROM t_outbox_checkpoint c WHERE c.lane = n.lane ORDER BY c.epoch DESC, c.number DESC LIMIT 1), '[]')
FROM t_outbox_lane n JOIN t_outbox_division d ON d.generation = n.generation LEFT JOIN t_outbox_lease l ON l.lane = n.lane
WHERE n.generation = ?`

	rowsByID = `SELECT e.id, e.aggregate_id, e.topic FROM t_outbox_event e WHERE e.id IN (%s)`

	beginDivision = `UPDATE t_outbox_division SET begun_at = UTC_TIMESTAMP(6) WHERE generation = ?`
)

// begin lets a generation of lanes begin when all lanes of the one before have
// ended: each gets a checkpoint that says what those have left. It reports
// whether the generation may be led.
//
// Crash here: before the commit nothing has begun, and the next who asks begins
// it; after it every lane has its checkpoint.
func (l *Log) begin(ctx context.Context, generation int) (begun bool, err error) {
	tx, err := l.s.own.BeginTx(ctx, &readCommitted)
	if err == nil {
		defer func() { _ = tx.Rollback() }()
		if begun, err = l.beginIn(ctx, tx, generation); err == nil {
			err = tx.Commit()
		}
	}
	if err != nil {
		return false, fmt.Errorf("begin generation %d of lanes: %w", generation, err)
	}
	return begun, nil
}

func (l *Log) beginIn(ctx context.Context, tx *sql.Tx, generation int) (begun bool, err error) {
	if err := tx.QueryRowContext(ctx, lockDivision, generation).Scan(&begun); err != nil || begun {
		return begun, err
	}
	all, ends, err := endsOf(ctx, tx, generation-1)
	if err != nil || !all {
		return false, err
	}
	found, err := l.findRows(ctx, tx, relay.Undecided(ends))
	if err != nil {
		return false, err
	}
	readers := outboxlog.PackReadersInRuns(relay.Merge(ends, found))
	var lane int
	var lanes []int
	if err := each(ctx, tx, []any{&lane}, func() { lanes = append(lanes, lane) }, lanesOf, generation); err != nil {
		return false, err
	}
	for _, lane := range lanes {
		if _, err := tx.ExecContext(ctx, makeLease, lane); err != nil {
			return false, err
		}
		if _, err := tx.ExecContext(ctx, addPosition, lane, 0, 1, readers, l.s.now().UTC()); err != nil {
			return false, err
		}
	}
	_, err = tx.ExecContext(ctx, beginDivision, generation)
	return true, err
}

// endsOf returns where the lanes of a generation are, and whether all of them
// have ended there.
func endsOf(ctx context.Context, tx *sql.Tx, generation int) (all bool, ends []relay.End, err error) {
	all = true
	var lane relay.Lane
	var ended bool
	var packed string
	var wrong error
	err = each(ctx, tx, []any{&lane.Number, &lane.Generation, &lane.Index, &lane.Of, &ended, &packed}, func() {
		readers, err := outboxlog.UnpackReaders(packed)
		wrong = errors.Join(wrong, err)
		ends = append(ends, relay.End{Lane: lane, Readers: readers})
		all = all && ended
	}, endedLanes, generation)
	return all, ends, errors.Join(err, wrong)
}

// presentPositions is one row for each lane that reads now.
const presentPositions = `SELECT coalesce((SELECT c.readers FROM t_outbox_checkpoint c WHERE c.lane = l.lane ORDER BY c.epoch DESC, c.number DESC LIMIT 1), '[]')
FROM v_outbox_lane l ORDER BY l.lane_index`

// positions are the readers of each lane that reads now, by its index; of one
// that has not committed yet there are none.
func positions(ctx context.Context, tx *sql.Tx) ([][]relay.Reader, error) {
	var lanes [][]relay.Reader
	var packed string
	var wrong error
	err := each(ctx, tx, []any{&packed}, func() {
		readers, err := outboxlog.UnpackReaders(packed)
		wrong = errors.Join(wrong, err)
		lanes = append(lanes, readers)
	}, presentPositions)
	if err == nil && len(lanes) == 0 {
		err = errors.New("t_outbox_lane is empty; `settle doctor` says what is missing")
	}
	return lanes, errors.Join(err, wrong)
}

// findRows returns those of some ids that are there. Every lane that could deal
// with one has ended, so it does not matter that one statement sees later rows
// than the other: what the first has not seen is left for the next lanes.
func (l *Log) findRows(ctx context.Context, tx *sql.Tx, ids []int64) (map[int64]relay.Found, error) {
	there, err := l.s.among(ctx, tx, outboxlog.Runs(ids), len(ids), "")
	if err != nil {
		return nil, err
	}
	found := map[int64]relay.Found{}
	var id int64
	var key, topic stringColumn
	for some := range slices.Chunk(there, rowsAtOnce) {
		err := each(ctx, tx, []any{&id, &key, &topic}, func() {
			found[id] = relay.Found{Key: key.string, Destination: topic.string}
		}, fmt.Sprintf(rowsByID, times(len(some), "?")), list(some)...)
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}
