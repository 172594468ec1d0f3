package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

// sweepRuns is how many runs of cold ids one sweep looks at, about a quarter of
// a second's work; the next goes on behind them.
const sweepRuns = 20_000

const (
	gapWindow = `SELECT first_id, last_id FROM t_outbox_gap WHERE first_id > ? ORDER BY first_id LIMIT ?`

	addLate = `INSERT IGNORE INTO t_outbox_extra (id, reason, added_at) VALUES %s`

	dropGaps = `DELETE FROM t_outbox_gap WHERE first_id IN (%s)`
)

// Sweep implements relay.Store. It is bounded by the runs it looks at and by
// the statements' time-out.
func (l *Log) Sweep(ctx context.Context, lease relay.Lease, limit int) (int, error) {
	listed := 0
	var status sweptStatus
	err := l.write(ctx, lease, func(tx *sql.Tx) (err error) {
		if l.s.adopted.sweepable() && l.lane().Index == 0 {
			if status, err = l.sweepStatus(ctx, tx, limit); err != nil {
				return err
			}
		}
		listed, err = l.sweep(ctx, tx, limit)
		return err
	})
	if err == nil {
		err = snapshot(ctx, l.s.own, func(tx *sql.Tx) error {
			st, err := l.s.readPosition(ctx, tx, lease.Lane)
			if err != nil {
				return err
			}
			return st.CheckGeneration()
		})
	}
	if err == nil {
		err = l.resend(ctx, status.again)
	}
	if err != nil {
		return 0, fmt.Errorf("sweep gaps: %w", explain(err))
	}
	return listed + status.listed, nil
}

// sweep lists a row that is there although its id was cold, and takes its id
// out of the run.
func (l *Log) sweep(ctx context.Context, tx *sql.Tx, limit int) (int, error) {
	runs, err := gaps(ctx, tx, gapWindow, l.sweepFrom, sweepRuns)
	if err != nil {
		return 0, err
	}
	found, err := l.s.among(ctx, tx, runs, limit, l.ownRows("e.id", "e.aggregate_id"))
	if err != nil {
		return 0, err
	}
	decided, late := found, found
	if l.lane().HasForerunners() {
		if decided, late, err = l.lateOfLane(ctx, tx, found); err != nil {
			return 0, err
		}
	}
	w := flushing{ctx: ctx, tx: tx, now: l.s.now().UTC()}
	listed := w.late(late)
	if w.tear(runs, decided); w.err != nil {
		return 0, w.err
	}
	switch {
	case len(found) >= limit && len(decided) > 0: // the same runs again
	case len(runs) < sweepRuns:
		l.sweepFrom = 0
	default:
		l.sweepFrom = runs[len(runs)-1][0]
	}
	return listed, nil
}

func (w *flushing) late(ids []int64) (listed int) {
	for some := range slices.Chunk(ids, rowsAtOnce) {
		var args []any
		for _, id := range some {
			args = append(args, id, "late", w.now)
		}
		if w.err == nil {
			var n int64
			n, w.err = affected(w.tx.ExecContext(w.ctx, fmt.Sprintf(addLate, times(len(some), "(?,?,?)")), args...))
			listed += int(n)
		}
	}
	return listed
}

// tear takes ids out of runs of cold ones.
func (w *flushing) tear(runs []outboxlog.Run, ids []int64) {
	torn := slices.DeleteFunc(runs, func(r outboxlog.Run) bool {
		i, _ := slices.BinarySearch(ids, r[0])
		return i == len(ids) || ids[i] > r[1]
	})
	for some := range slices.Chunk(torn, rowsAtOnce) {
		var first []any
		for _, r := range some {
			first = append(first, r[0])
		}
		w.exec(fmt.Sprintf(dropGaps, times(len(some), "?")), first...)
	}
	w.gaps(outboxlog.Tear(torn, ids))
}

func gaps(ctx context.Context, q querier, query string, args ...any) ([]outboxlog.Run, error) {
	var runs []outboxlog.Run
	var r outboxlog.Run
	err := each(ctx, q, []any{&r[0], &r[1]}, func() { runs = append(runs, r) }, query, args...)
	return runs, err
}

// among returns the lowest of the ids among runs that are there and meet a
// condition, if there is one, sorted.
func (s *Store) among(ctx context.Context, q querier, runs []outboxlog.Run, limit int, condition string) ([]int64, error) {
	var found []int64
	var id int64
	for _, f := range findQueries(runs, "e.id", condition) {
		if err := each(ctx, q, []any{&id}, func() { found = append(found, id) }, s.reading(f.query), append(f.args, limit)...); err != nil {
			return nil, err
		}
	}
	slices.Sort(found)
	return found[:min(len(found), limit)], nil
}

// pruneMore is how many checkpoints are looked at for each row: a busy relay
// writes hundreds in a second.
const pruneMore = 10

const (
	lowestRow = `SELECT coalesce(min(id), ?) FROM t_outbox_event`

	// Of every lane, also of those that have ended: the next generation begins
	// where they are.
	newestNumbers = `SELECT coalesce((SELECT c.seq FROM t_outbox_checkpoint c WHERE c.lane = n.lane ORDER BY c.epoch DESC, c.number DESC LIMIT 1), 0) FROM t_outbox_lane n`

	// Of the rows that these tell of none is left.
	passedCheckpoints = `SELECT seq FROM t_outbox_checkpoint FORCE INDEX (i_outbox_checkpoint_ids) WHERE last_id < ? ORDER BY last_id LIMIT ?`
	emptyCheckpoints  = `SELECT seq FROM t_outbox_checkpoint FORCE INDEX (i_outbox_checkpoint_ids) WHERE last_id IS NULL LIMIT ?`

	pruneWindow = `SELECT seq, first_id, last_id FROM t_outbox_checkpoint WHERE seq > ? ORDER BY seq LIMIT ?`

	// Each range is a constant: joined to the checkpoints, the table would be
	// read from its beginning for each.
	stillThere = `SELECT %d FROM DUAL WHERE EXISTS (SELECT 1 FROM ` + logIDs + ` WHERE id BETWEEN %d AND %d)`

	dropCheckpoints = `DELETE FROM t_outbox_checkpoint WHERE seq IN (%s)`

	newestRenewalNo = `SELECT coalesce(max(renewal_no), 0) FROM settle_renewal WHERE scope = ? AND name = ? AND epoch = ?`
	oldEpochs       = `DELETE FROM settle_renewal WHERE scope = ? AND name = ? AND epoch < ?`
	oldRenewals     = `DELETE FROM settle_renewal WHERE scope = ? AND name = ? AND epoch = ? AND renewal_no < ?`
)

// prune deletes checkpoints of all lanes, and renewals. The newest checkpoint is
// a lane's position; the others are kept while an event is there of which they
// know where the broker has it.
func (l *Log) prune(ctx context.Context, tx *sql.Tx, lease relay.Lease, limit int) error {
	var lowest int64
	if err := tx.QueryRowContext(ctx, lowestRow, int64(1)<<62).Scan(&lowest); err != nil {
		return err
	}
	newest := map[int64]bool{}
	var old []any
	var seq int64
	if err := each(ctx, tx, []any{&seq}, func() { newest[seq] = true }, newestNumbers); err != nil {
		return err
	}
	take := func() {
		if !newest[seq] {
			old = append(old, seq)
		}
	}
	if err := each(ctx, tx, []any{&seq}, take, passedCheckpoints, lowest, limit*pruneMore); err != nil {
		return err
	}
	if err := each(ctx, tx, []any{&seq}, take, emptyCheckpoints, limit*pruneMore); err != nil {
		return err
	}
	between, err := l.prunable(ctx, tx, newest, limit)
	if err != nil {
		return err
	}
	w := flushing{ctx: ctx, tx: tx}
	for some := range slices.Chunk(append(old, between...), rowsAtOnce) {
		w.exec(fmt.Sprintf(dropCheckpoints, times(len(some), "?")), some...)
	}
	if w.err != nil {
		return w.err
	}
	return pruneRenewals(ctx, tx, lease)
}

// prunable looks at checkpoints between rows that stay, a window at a time.
func (l *Log) prunable(ctx context.Context, tx *sql.Tx, newest map[int64]bool, limit int) ([]any, error) {
	type window struct{ seq, first, last int64 }
	var all []window
	var seq int64
	var first, last intColumn
	n, end := 0, int64(0)
	err := each(ctx, tx, []any{&seq, &first, &last}, func() {
		n, end = n+1, seq
		if first.set && !newest[seq] {
			all = append(all, window{seq, first.int64, last.int64})
		}
	}, pruneWindow, l.pruneFrom, limit)
	if err != nil {
		return nil, err
	}
	there := map[int64]bool{}
	for some := range slices.Chunk(all, 200) {
		var queries []string
		for _, c := range some {
			queries = append(queries, fmt.Sprintf(stillThere, c.seq, c.first, c.last))
		}
		if err := each(ctx, tx, []any{&seq}, func() { there[seq] = true }, l.s.reading(strings.Join(queries, "\nUNION ALL "))); err != nil {
			return nil, err
		}
	}
	if l.pruneFrom = end; n < limit {
		l.pruneFrom = 0
	}
	var old []any
	for _, c := range all {
		if !there[c.seq] {
			old = append(old, c.seq)
		}
	}
	return old, nil
}

func pruneRenewals(ctx context.Context, tx *sql.Tx, lease relay.Lease) error {
	name := laneName(lease.Lane)
	if _, err := tx.ExecContext(ctx, oldEpochs, relayScope, name, lease.Epoch); err != nil {
		return err
	}
	var newest int64
	if err := tx.QueryRowContext(ctx, newestRenewalNo, relayScope, name, lease.Epoch).Scan(&newest); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, oldRenewals, relayScope, name, lease.Epoch, newest)
	return err
}
