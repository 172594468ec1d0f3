package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

const (
	// The window is a run of ids, looked at by primary key.
	retainWindow = `SELECT id, topic, appended_at < ? FROM t_outbox_event WHERE id > ? ORDER BY id LIMIT ?`

	// keepRows keeps rows from being deleted, and others from listing them to be
	// sent again, until the transaction ends. Whoever lists rows of the outbox
	// that are done holds it before looking at them.
	keepRows = `SELECT version FROM settle_control_version FOR UPDATE`

	heldRows = `SELECT id FROM t_outbox_parked WHERE id IN (%[1]s) UNION ALL SELECT id FROM t_outbox_delayed WHERE id IN (%[1]s) UNION ALL SELECT id FROM t_outbox_extra WHERE id IN (%[1]s)`

	// Runs of cold ids that reach into a window: a row that is there all the same
	// has not been sent.
	gapsWithin = `SELECT first_id, last_id FROM t_outbox_gap
WHERE first_id >= coalesce((SELECT max(g.first_id) FROM t_outbox_gap g WHERE g.first_id <= ?), 0) AND first_id <= ? ORDER BY first_id`

	// What is young is not deleted, whatever was read before.
	deleteRows = `DELETE FROM t_outbox_event WHERE id IN (%s) AND appended_at < ?`
)

// Retain implements relay.Store. It looks at no more than limit rows, twenty
// times as many checkpoints that no row needs and as many that some may, and
// goes on behind them at the next call. Rows are deleted by name, and no lock
// but theirs is held, so that producers never wait.
func (l *Log) Retain(ctx context.Context, lease relay.Lease, before time.Time, limit int) (int, error) {
	gone := 0
	err := l.write(ctx, lease, func(tx *sql.Tx) (err error) {
		if l.lane().Index > 0 {
			return pruneRenewals(ctx, tx, lease) // the first lane deletes for all
		}
		if !before.IsZero() {
			if gone, err = l.retain(ctx, tx, before.UTC(), limit); err != nil {
				return err
			}
		}
		return l.prune(ctx, tx, lease, limit)
	})
	if err != nil {
		return 0, fmt.Errorf("delete what is done: %w", explain(err))
	}
	return gone, nil
}

// retainable is a row that is old enough.
type retainable struct {
	id    int64
	topic string
}

func (l *Log) retain(ctx context.Context, tx *sql.Tx, before time.Time, limit int) (int, error) {
	var rows []retainable
	var row retainable
	var old bool
	n, from, last := 0, l.retainFrom, int64(0)
	err := each(ctx, tx, []any{&row.id, &row.topic, &old}, func() {
		if n, last = n+1, row.id; old {
			rows = append(rows, row)
		}
	}, retainWindow, before, from, limit)
	if err != nil {
		return 0, err
	}
	// Rows are about as old as their ids say: behind the first that is too
	// young there is nothing to do.
	if l.retainFrom = last; n < limit || len(rows) < n {
		l.retainFrom = 0
	}
	if len(rows) == 0 {
		return 0, nil
	}
	if _, err := tx.ExecContext(ctx, keepRows); err != nil {
		return 0, err
	}
	lanes, err := positions(ctx, tx)
	if err != nil {
		return 0, err
	}
	done, err := sentOnly(ctx, tx, rows, lanes)
	if err != nil || len(done) == 0 {
		return 0, err
	}
	gone := 0
	for some := range slices.Chunk(done, rowsAtOnce) {
		if some, err = l.s.adopted.deletable(ctx, tx, some); err != nil || len(some) == 0 {
			return gone, err
		}
		k, err := affected(tx.ExecContext(ctx, fmt.Sprintf(deleteRows, times(len(some), "?")), append(some, before)...))
		if gone += int(k); err != nil {
			return 0, err
		}
	}
	if gone == n {
		err = mergeGaps(ctx, tx, from, last, slices.Concat(lanes...))
	}
	return gone, err
}

// sentOnly leaves rows that were acknowledged at their destination: of every
// lane at or below the cursor that serves their topic, not among what that reader
// has open, and in no side table.
func sentOnly(ctx context.Context, tx *sql.Tx, rows []retainable, lanes [][]relay.Reader) ([]any, error) {
	kept, err := gaps(ctx, tx, gapsWithin, rows[0].id, rows[len(rows)-1].id)
	if err != nil {
		return nil, err
	}
	cold := outboxlog.Missing{}
	for _, r := range kept {
		cold.Add(r[0], r[1])
	}
	stays := map[int64]bool{}
	var id int64
	for some := range slices.Chunk(rows, rowsAtOnce) {
		var ids []any
		for _, r := range some {
			ids = append(ids, r.id)
		}
		query := fmt.Sprintf(heldRows, times(len(ids), "?"))
		if err := each(ctx, tx, []any{&id}, func() { stays[id] = true }, query, slices.Concat(ids, ids, ids)...); err != nil {
			return nil, err
		}
	}
	var done []any
	for _, r := range rows {
		awaited := slices.ContainsFunc(lanes, func(readers []relay.Reader) bool {
			by := readerOf(r.topic, readers)
			_, open := slices.BinarySearch(by.Open, r.id)
			return open || r.id > by.Cursor
		})
		if !awaited && !stays[r.id] && len(cold.Of([]outboxlog.Run{{r.id, r.id}})) == 0 {
			done = append(done, r.id)
		}
	}
	return done, nil
}

// readerOf returns the reader that serves a topic.
func readerOf(topic string, readers []relay.Reader) relay.Reader {
	var main relay.Reader
	for _, r := range readers {
		switch r.Destination {
		case topic:
			return r
		case "":
			main = r
		}
	}
	return main
}

const (
	gapsBetween = `SELECT count(*), coalesce(min(first_id), 0), coalesce(max(last_id), 0), min(recorded_at) FROM t_outbox_gap WHERE first_id > ? AND last_id <= ?`
	rowsBetween = `SELECT EXISTS (SELECT 1 FROM t_outbox_event WHERE id > ? AND id <= ?)`
	dropBetween = `DELETE FROM t_outbox_gap WHERE first_id > ? AND first_id <= ? AND last_id <= ?`
)

// mergeGaps joins the runs of cold ids where no row is left and none is awaited:
// they need not be told apart from ids that were deleted. A row that comes back
// there is late.
func mergeGaps(ctx context.Context, tx *sql.Tx, from, last int64, readers []relay.Reader) error {
	for _, r := range readers {
		i, _ := slices.BinarySearch(r.Open, from+1)
		if r.Cursor < last || i < len(r.Open) && r.Open[i] <= last {
			return nil
		}
	}
	var some bool
	if err := tx.QueryRowContext(ctx, rowsBetween, from, last).Scan(&some); err != nil || some {
		return err
	}
	var n, first, end int64
	var since timeColumn
	if err := tx.QueryRowContext(ctx, gapsBetween, from, last).Scan(&n, &first, &end, &since); err != nil || n < 2 {
		return err
	}
	if _, err := tx.ExecContext(ctx, dropBetween, from, last, last); err != nil {
		return err
	}
	w := flushing{ctx: ctx, tx: tx, now: since.Time}
	w.gaps([]outboxlog.Run{{first, end}})
	return w.err
}
