package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/settlemq/settle/relay"
)

const (
	findLate = `INSERT INTO t_outbox_extra (id, reason, added_at) SELECT g.id, 'late', ? FROM t_outbox_gap g
WHERE EXISTS (SELECT 1 FROM t_outbox_event e WHERE e.id = g.id) ORDER BY g.id LIMIT ? ON CONFLICT DO NOTHING`
	closeGaps = `DELETE FROM t_outbox_gap WHERE id IN (SELECT id FROM t_outbox_extra)`
)

// Sweep implements relay.Store. The look-ups are by primary key and the file
// makes holes only where a foreign program sets ids, so no time-out is needed.
func (l *Log) Sweep(ctx context.Context, lease relay.Lease, limit int) (int, error) {
	found := 0
	err := l.write(ctx, lease, func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, findLate, l.s.now().UnixMicro(), limit)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if err != nil || n == 0 {
			return err
		}
		found = int(n)
		_, err = tx.ExecContext(ctx, closeGaps)
		return err
	})
	if err == nil {
		err = l.checkGeneration(ctx)
	}
	if err != nil {
		return 0, fmt.Errorf("sweep gaps: %w", err)
	}
	return found, nil
}

// checkGeneration looks whether the table is still the one that the relay reads.
func (l *Log) checkGeneration(ctx context.Context) error {
	tx, err := l.s.snapshot(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	st, err := readPosition(ctx, tx)
	if err != nil {
		return err
	}
	return st.CheckGeneration()
}

const (
	// The window is a run of ids, looked at by primary key; what it returns are
	// its size, its last id and how many of its rows are old enough.
	retainWindow = `SELECT count(*), coalesce(max(id), 0), coalesce(sum(appended_at < ?), 0)
FROM (SELECT id, appended_at FROM t_outbox_event WHERE id > ? ORDER BY id LIMIT ?)`

	// Acknowledged at its destination: at or below the cursor that serves its
	// topic, not among what that reader has open, and no cold id: a row that
	// has come back there waits for the next sweep.
	retainRows = `WITH reader AS MATERIALIZED (SELECT destination, cursor FROM v_outbox_reader),
 unseen AS MATERIALIZED (SELECT destination, h.value AS id FROM v_outbox_reader, json_each(open) h)
DELETE FROM t_outbox_event WHERE id IN (
 SELECT e.id FROM t_outbox_event e LEFT JOIN reader m ON m.destination = '' LEFT JOIN reader o ON o.destination = e.topic
 WHERE e.id > ?2 AND e.id <= ?3 AND e.appended_at < ?1 AND e.id <= coalesce(o.cursor, m.cursor, 0)
 AND NOT EXISTS (SELECT 1 FROM unseen u WHERE u.destination = coalesce(o.destination, m.destination) AND u.id = e.id)
 AND NOT EXISTS (SELECT 1 FROM t_outbox_parked p WHERE p.id = e.id)
 AND NOT EXISTS (SELECT 1 FROM t_outbox_delayed t WHERE t.id = e.id)
 AND NOT EXISTS (SELECT 1 FROM t_outbox_extra x WHERE x.id = e.id)
 AND NOT EXISTS (SELECT 1 FROM t_outbox_gap g WHERE g.id = e.id))`
)

// Retain implements relay.Store. It looks at no more than limit rows and limit
// checkpoints, and goes on behind them at the next call.
func (l *Log) Retain(ctx context.Context, lease relay.Lease, before time.Time, limit int) (int, error) {
	gone := 0
	err := l.write(ctx, lease, func(ctx context.Context, tx *sql.Tx) (err error) {
		if !before.IsZero() {
			if gone, err = l.retain(ctx, tx, before, limit); err != nil {
				return err
			}
		}
		return l.prune(ctx, tx, limit)
	})
	if err != nil {
		return 0, fmt.Errorf("delete what is done: %w", err)
	}
	return gone, nil
}

func (l *Log) retain(ctx context.Context, tx *sql.Tx, before time.Time, limit int) (int, error) {
	var rows, last, old int64
	cut := before.UnixMicro()
	if err := tx.QueryRowContext(ctx, retainWindow, cut, l.retainFrom, limit).Scan(&rows, &last, &old); err != nil {
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
	res, err := tx.ExecContext(ctx, retainRows, cut, from, last)
	if err != nil {
		return 0, err
	}
	n, err := res.RowsAffected()
	return int(n), err
}

const (
	pruneWindow = `SELECT count(*), coalesce(max(seq), 0) FROM (SELECT seq FROM t_outbox_checkpoint WHERE seq > ? ORDER BY seq LIMIT ?)`

	// The newest one is the relay's position. The others are kept while an
	// event is there of which they know where the broker has it.
	pruneCheckpoints = `DELETE FROM t_outbox_checkpoint AS c WHERE c.seq > ? AND c.seq <= ? AND c.seq < (SELECT max(seq) FROM t_outbox_checkpoint)
AND NOT EXISTS (SELECT 1 FROM t_outbox_event e WHERE e.id BETWEEN c.first_id AND c.last_id)`
)

func (l *Log) prune(ctx context.Context, tx *sql.Tx, limit int) error {
	var rows, last int64
	if err := tx.QueryRowContext(ctx, pruneWindow, l.pruneFrom, limit).Scan(&rows, &last); err != nil {
		return err
	}
	from := l.pruneFrom
	if l.pruneFrom = last; rows < int64(limit) {
		l.pruneFrom = 0
	}
	_, err := tx.ExecContext(ctx, pruneCheckpoints, from, last)
	return err
}
