package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/relay"
)

// sweepRuns is how many runs of cold ids one sweep looks at, about a quarter of
// a second's work; the next goes on behind them.
const sweepRuns = 100_000

const (
	// A row that is there although its id was cold is listed, and its id taken
	// out of the run.
	listLate = `WITH looked AS MATERIALIZED (SELECT first_id, last_id FROM t_outbox_gap WHERE first_id > $2 ORDER BY first_id LIMIT $4),
 late AS MATERIALIZED (SELECT e.id, r.first_id FROM looked r CROSS JOIN LATERAL
  (SELECT id FROM settle_outbox_row() WHERE id BETWEEN r.first_id AND r.last_id AND readable ORDER BY id LIMIT $3) e ORDER BY e.id LIMIT $3),
 listed AS (INSERT INTO t_outbox_extra (id, reason, added_at) SELECT id, 'late', $1 FROM late ON CONFLICT DO NOTHING RETURNING id),
 number AS (SELECT count(*) AS n FROM listed)
SELECT number.n, (SELECT count(*) FROM looked), (SELECT coalesce(max(first_id), 0) FROM looked), coalesce(array_agg(late.first_id) FILTER (WHERE late.id IS NOT NULL), '{}'),
 coalesce(array_agg(late.id) FILTER (WHERE late.id IS NOT NULL), '{}')
FROM number LEFT JOIN late ON true GROUP BY number.n`

	tearRuns = `WITH torn AS (DELETE FROM t_outbox_gap WHERE first_id = ANY($2) RETURNING first_id, last_id)
INSERT INTO t_outbox_gap (first_id, last_id, recorded_at) SELECT lower(r.run), upper(r.run) - 1, $1 FROM (SELECT unnest(
 (SELECT range_agg(int8range(first_id, last_id, '[]')) FROM torn) - (SELECT range_agg(int8range(id, id, '[]')) FROM unnest($3::bigint[]) id)) AS run) r
ON CONFLICT (first_id) DO UPDATE SET last_id = greatest(t_outbox_gap.last_id, excluded.last_id)`
)

// Sweep implements relay.Store. It is bounded by the runs it looks at and by
// the statement's time-out.
func (l *Log) Sweep(ctx context.Context, lease relay.Lease, limit int) (int, error) {
	var listed, looked, last int64
	var torn, late, strays []int64
	var again []string
	err := l.write(ctx, lease, func(tx pgx.Tx) error {
		now := l.s.now().UTC()
		lane := l.lane()
		if l.s.adopted.sweepable() && lane.Index == 0 {
			var err error
			if err = l.projectNoted(ctx, tx, now, limit); err != nil {
				return err
			}
			if strays, again, err = l.sweepStatus(ctx, tx, now, limit); err != nil {
				return err
			}
		}
		query, args := listLate, []any{now, l.sweepFrom, limit, sweepRuns}
		if lane.HasForerunners() {
			query, args = listLateOfLane, append(args, lane.Of, lane.Index)
		}
		if err := tx.QueryRow(ctx, query, args...).Scan(&listed, &looked, &last, &torn, &late); err != nil || len(late) == 0 {
			return err
		}
		_, err := tx.Exec(ctx, tearRuns, now, torn, late)
		return err
	})
	if err == nil {
		err = l.s.snapshot(ctx, checkGeneration(ctx))
	}
	if err == nil {
		err = l.resend(ctx, again)
	}
	if err != nil {
		return 0, fmt.Errorf("sweep gaps: %w", err)
	}
	switch {
	case len(late) >= limit: // the same runs again
	case looked < sweepRuns:
		l.sweepFrom = 0
	default:
		l.sweepFrom = last
	}
	return int(listed) + len(strays), nil
}

// checkGeneration looks whether the table is still the one that the relay reads.
func checkGeneration(ctx context.Context) func(tx pgx.Tx) error {
	return func(tx pgx.Tx) error {
		st, err := readPosition(ctx, tx)
		if err != nil {
			return err
		}
		return st.CheckGeneration()
	}
}

const (
	// The window is a run of ids, looked at by primary key; what it returns are
	// its size, its last id and how many of its rows are old enough.
	retainWindow = `SELECT count(*), coalesce(max(id), 0), count(*) FILTER (WHERE appended_at < $1)
FROM (SELECT id, appended_at FROM settle_outbox_row() WHERE id > $2 ORDER BY id LIMIT $3) w`

	// Acknowledged at its destination: at or below the cursor that serves its
	// topic, not among what that reader has open, and no cold id: a row that
	// has come back there waits for the next sweep.
	retainRows = `WITH reader AS MATERIALIZED (SELECT r.destination, r.cursor,
  (SELECT coalesce(range_agg(int8range(o.first_id, o.last_id, '[]')), '{}') FROM v_outbox_open o WHERE o.destination = r.destination) AS open FROM v_outbox_reader r)
DELETE FROM t_outbox_event e USING
 (SELECT e.id FROM t_outbox_event e LEFT JOIN reader m ON m.destination = '' LEFT JOIN reader o ON o.destination = e.topic AND o.destination <> ''
 WHERE e.id > $2 AND e.id <= $3 AND e.appended_at < $1 AND e.id <= coalesce(o.cursor, m.cursor, 0)
 AND NOT e.id <@ coalesce(o.open, m.open, '{}')
 AND NOT EXISTS (SELECT 1 FROM t_outbox_parked p WHERE p.id = e.id)
 AND NOT EXISTS (SELECT 1 FROM t_outbox_delayed t WHERE t.id = e.id)
 AND NOT EXISTS (SELECT 1 FROM t_outbox_extra x WHERE x.id = e.id)
 AND NOT EXISTS (SELECT 1 FROM (SELECT g.last_id FROM t_outbox_gap g WHERE g.first_id <= e.id ORDER BY g.first_id DESC LIMIT 1) gap WHERE gap.last_id >= e.id)
 FOR UPDATE OF e) done
WHERE e.id = done.id`

	// Of an adopted table only what is marked as sent goes, and nobody is waited for.
	retainAdopted = `WITH reader AS MATERIALIZED (SELECT r.destination, r.cursor,
  (SELECT coalesce(range_agg(int8range(o.first_id, o.last_id, '[]')), '{}') FROM v_outbox_open o WHERE o.destination = r.destination) AS open FROM v_outbox_reader r)
DELETE FROM %[1]s e USING
 (SELECT t.id FROM %[1]s t JOIN settle_outbox_row() e ON e.id = t.id LEFT JOIN reader m ON m.destination = '' LEFT JOIN reader o ON o.destination = e.topic AND o.destination <> ''
 WHERE t.id > $2 AND t.id <= $3 AND e.appended_at < $1 AND e.id <= coalesce(o.cursor, m.cursor, 0) AND (NOT %[2]t OR e.status_now = 'SENT')
 AND NOT e.id <@ coalesce(o.open, m.open, '{}')
 AND NOT EXISTS (SELECT 1 FROM t_outbox_parked p WHERE p.id = e.id)
 AND NOT EXISTS (SELECT 1 FROM t_outbox_delayed t WHERE t.id = e.id)
 AND NOT EXISTS (SELECT 1 FROM t_outbox_extra x WHERE x.id = e.id)
 AND NOT EXISTS (SELECT 1 FROM (SELECT g.last_id FROM t_outbox_gap g WHERE g.first_id <= e.id ORDER BY g.first_id DESC LIMIT 1) gap WHERE gap.last_id >= e.id)
 FOR UPDATE OF t SKIP LOCKED) done
WHERE e.id = done.id`

	// Where no row is left and none is awaited, cold ids need not be told apart
	// from those that were deleted: a row that comes back there is late.
	mergeGaps = `WITH gone AS (DELETE FROM t_outbox_gap g WHERE g.first_id > $1 AND g.last_id <= $2
 AND NOT EXISTS (SELECT 1 FROM settle_outbox_row() e WHERE e.id > $1 AND e.id <= $2)
 AND NOT EXISTS (SELECT 1 FROM v_outbox_open o WHERE o.first_id <= $2 AND o.last_id > $1)
 AND NOT EXISTS (SELECT 1 FROM v_outbox_reader r WHERE r.cursor < $2)
 RETURNING first_id, last_id, recorded_at)
INSERT INTO t_outbox_gap (first_id, last_id, recorded_at) SELECT min(first_id), max(last_id), min(recorded_at) FROM gone HAVING count(*) > 0`
)

// pruneMore is how many checkpoints are looked at for each row: a busy relay
// writes hundreds in a second.
const pruneMore = 10

// Retain implements relay.Store. It looks at no more than limit rows and ten
// times as many checkpoints, as many where it found much to delete, and goes on
// behind them at the next call. Of an outbox in partitions it drops whole ones
// first, at least one where it may.
func (l *Log) Retain(ctx context.Context, lease relay.Lease, before time.Time, limit int) (int, error) {
	dropped, rest := 0, before
	if l.lane().Index == 0 {
		var err error
		if dropped, rest, err = l.keepPartitions(ctx, lease, before, limit); err != nil {
			return 0, fmt.Errorf("keep partitions: %w", err)
		}
	}
	gone := 0
	err := l.write(ctx, lease, func(tx pgx.Tx) (err error) {
		if l.lane().Index > 0 { // the first lane deletes for all
			if err := l.s.lookWhetherPartitioned(ctx, tx); err != nil {
				return err
			}
			return l.pruneRenewals(ctx, tx, lease)
		}
		if !rest.IsZero() && dropped < limit {
			if gone, err = l.retain(ctx, tx, rest, limit-dropped); err != nil {
				return err
			}
		}
		checkpoints := limit * pruneMore
		if dropped+gone >= limit/2 { // the next call is near
			checkpoints = limit
		}
		return l.prune(ctx, tx, lease, checkpoints)
	})
	if err != nil {
		return 0, fmt.Errorf("delete what is done: %w", err)
	}
	return dropped + gone, nil
}

func (l *Log) retain(ctx context.Context, tx pgx.Tx, before time.Time, limit int) (int, error) {
	var rows, last, old int64
	if err := tx.QueryRow(ctx, retainWindow, before.UTC(), l.retainFrom, limit).Scan(&rows, &last, &old); err != nil {
		return 0, err
	}
	from := l.retainFrom
	// Rows are about as old as their ids say: behind the first that is too
	// young there is nothing to do.
	if l.retainFrom = last; rows < int64(limit) || old < rows {
		l.retainFrom = 0
	}
	if old == 0 {
		return 0, nil
	}
	// A person may be listing one of them to be sent again.
	if _, err := tx.Exec(ctx, keepRows); err != nil {
		return 0, err
	}
	query := retainRows
	if a := l.s.adopted; a != nil {
		query = fmt.Sprintf(retainAdopted, a.table(), a.Project)
	}
	tag, err := tx.Exec(ctx, query, before.UTC(), from, last)
	if err != nil {
		return 0, err
	}
	if tag.RowsAffected() == rows {
		_, err = tx.Exec(ctx, mergeGaps, from, last)
	}
	return int(tag.RowsAffected()), err
}

const (
	pruneWindow = `SELECT count(*), coalesce(max(seq), 0) FROM (SELECT seq FROM t_outbox_checkpoint WHERE seq > $1 ORDER BY seq LIMIT $2) w`

	// The newest one is the relay's position. The others are kept while an
	// event is there of which they know where the broker has it.
	pruneCheckpoints = `DELETE FROM t_outbox_checkpoint c WHERE c.seq > $1 AND c.seq <= $2
AND (c.epoch, c.number) < (SELECT n.epoch, n.number FROM t_outbox_checkpoint n WHERE n.lane = c.lane ORDER BY n.epoch DESC, n.number DESC LIMIT 1)
AND NOT EXISTS (SELECT 1 FROM settle_outbox_row() e WHERE e.id BETWEEN c.first_id AND c.last_id)`

	pruneRenewals = `DELETE FROM settle_renewal r WHERE r.scope = $1 AND r.name = $2
AND (r.epoch < $3 OR r.renewal_no < (SELECT max(n.renewal_no) FROM settle_renewal n WHERE n.scope = $1 AND n.name = $2 AND n.epoch = $3))`
)

func (l *Log) prune(ctx context.Context, tx pgx.Tx, lease relay.Lease, limit int) error {
	var rows, last int64
	if err := tx.QueryRow(ctx, pruneWindow, l.pruneFrom, limit).Scan(&rows, &last); err != nil {
		return err
	}
	from := l.pruneFrom
	if l.pruneFrom = last; rows < int64(limit) {
		l.pruneFrom = 0
	}
	if _, err := tx.Exec(ctx, pruneCheckpoints, from, last); err != nil {
		return err
	}
	return l.pruneRenewals(ctx, tx, lease)
}

func (l *Log) pruneRenewals(ctx context.Context, tx pgx.Tx, lease relay.Lease) error {
	_, err := tx.Exec(ctx, pruneRenewals, relayScope, laneName(lease.Lane), lease.Epoch)
	return err
}
