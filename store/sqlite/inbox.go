package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/consumelog"
)

// Inbox keeps what consumer groups have done in the database of the business.
//
// Apply does all its items in one transaction, the only writer of the file: a
// handler that is slow holds everybody else up, so it must not wait for the
// outside world.
type Inbox struct {
	s *Store
	// insert holds the texts that record new items, by rows per call.
	insert [len(insertSizes)]string
}

// Inbox returns the file as the database of consumer groups.
func (s *Store) Inbox() *Inbox { return &Inbox{s: s, insert: insertQueries()} }

var _ settle.Inbox[*sql.Tx] = (*Inbox)(nil)

// apply is one call of Inbox.Apply.
type apply struct {
	in    *Inbox
	tx    *sql.Tx
	w     *settle.Work
	items []consumelog.Item
	now   time.Time
	base  int64 // processed_no of the row before the first item's
	extra int64 // rows recorded beside the items'
	keys  []string
}

// Apply implements settle.Inbox.
func (in *Inbox) Apply(ctx context.Context, w settle.Work, handle func(context.Context, *sql.Tx, int) error) ([]settle.Result, error) {
	tx, err := in.s.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	a := &apply{in: in, tx: tx, w: &w, now: in.s.now()}
	results, done, err := a.work(ctx, handle)
	if err != nil || !done {
		return results, err
	}
	in.s.crash("consume.before_commit")
	// Crash here: nothing of the work has happened, all of it is delivered again.
	if err := tx.Commit(); err != nil {
		return nil, fmt.Errorf("commit consumed events: %w", err)
	}
	// Crash here: all of it is durable; what is delivered again is a duplicate.
	return results, nil
}

// work does everything of w inside the transaction. It returns done false when
// all is to be rolled back although nothing is wrong with the database.
func (a *apply) work(ctx context.Context, handle func(context.Context, *sql.Tx, int) error) (r []settle.Result, done bool, err error) {
	// Our own statements are short and must not be torn by a context that
	// ends: the database would roll back under the handler.
	db := context.WithoutCancel(ctx)
	if err := a.guard(db); err != nil {
		return nil, false, err
	}
	if err := a.number(db); err != nil {
		return nil, false, err
	}
	inserted, err := a.record(db)
	if err != nil {
		return nil, false, err
	}
	f, err := a.load(db, inserted)
	if err != nil {
		return nil, false, err
	}
	steps, moves := consumelog.Plan(a.w, a.items, f)
	results := make([]settle.Result, len(steps))
	for i := range steps {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		ok, err := a.do(ctx, db, i, &steps[i], &results[i], handle)
		if err != nil {
			return nil, false, fmt.Errorf("record event %s of group %s: %w", a.items[i].EventID, a.w.Group, err)
		}
		if !ok {
			return rolledBack(ctx, results, i)
		}
	}
	if err := a.finish(db, moves); err != nil {
		return nil, false, err
	}
	if a.w.BeforeCommit != nil {
		if res, failed := contain(func() error { return a.w.BeforeCommit(ctx) }); failed {
			results = make([]settle.Result, len(results))
			for i := range results {
				results[i] = settle.Result{Verdict: settle.VerdictNotRun, Err: res.Err}
			}
			return results, false, ctx.Err()
		}
	}
	return results, true, nil
}

// rolledBack returns the results of a work whose item i failed. A context that
// has ended is nobody's attempt.
func rolledBack(ctx context.Context, results []settle.Result, i int) ([]settle.Result, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	for j := range results {
		if j != i {
			results[j] = settle.Result{Verdict: settle.VerdictNotRun}
		}
	}
	return results, false, nil
}

// do runs the handler of item i, if it is to run, and writes its step. It
// returns false when the handler failed.
func (a *apply) do(ctx, db context.Context, i int, s *consumelog.Step, res *settle.Result, handle func(context.Context, *sql.Tx, int) error) (bool, error) {
	res.Verdict = s.Verdict
	if s.Run {
		if s.Status != "" || len(s.Supersede) > 0 {
			// Insert first: the unique keys must hold before the effect is made.
			if err := a.log(db, i, s); err != nil {
				return false, err
			}
		}
		out, failed := contain(func() error { return handle(ctx, a.tx, i) })
		if rej, ok := settle.Rejected(out.Err); ok && out.Panic == "" {
			res.Verdict, res.Err = settle.VerdictRejected, out.Err
			if err := a.reject(db, i, s, rej.Reason); err != nil {
				return false, err
			}
		} else if failed {
			*res = out
			return false, nil
		}
	} else if err := a.log(db, i, s); err != nil {
		return false, err
	}
	return true, a.aftermath(db, i, s)
}

// contain calls f and turns a panic into a failed result.
func contain(f func() error) (res settle.Result, failed bool) {
	defer func() {
		if p := recover(); p != nil {
			res = settle.Result{Verdict: settle.VerdictFailed, Err: fmt.Errorf("handler panicked: %v", p), Panic: string(debug.Stack())}
			failed = true
		}
	}()
	if err := f(); err != nil {
		return settle.Result{Verdict: settle.VerdictFailed, Err: err}, true
	}
	return settle.Result{}, false
}

const guardPartition = `SELECT owner, epoch, generation, position FROM t_consume_partition
WHERE consumer_group = ? AND topic = ? AND number = ?`

// guard refuses the work of an owner that has been replaced.
func (a *apply) guard(db context.Context) error {
	for i := range a.w.Floors {
		if _, err := guard(db, a.tx, a.w.Group, a.w.Floors[i]); err != nil {
			return err
		}
	}
	return nil
}

// guard returns the floor that move starts from.
func guard(db context.Context, tx *sql.Tx, group string, move settle.FloorMove) (int64, error) {
	var owner, generation string
	var epoch, position int64
	p := move.Partition
	err := tx.QueryRowContext(db, guardPartition, group, p.Topic, p.Number).Scan(&owner, &epoch, &generation, &position)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, fmt.Errorf("partition %d of %s: %w", p.Number, p.Topic, settle.ErrFenced)
	case err != nil:
		return 0, fmt.Errorf("read floor of partition %d of %s: %w", p.Number, p.Topic, err)
	case owner != p.Owner || epoch != p.Epoch:
		return 0, fmt.Errorf("partition %d of %s: %w", p.Number, p.Topic, settle.ErrFenced)
	case generation != "" && generation != move.To.Generation:
		return 0, fmt.Errorf("partition %d of %s was read up to %d of %s, now it is %s: %w",
			p.Number, p.Topic, position, generation, move.To.Generation, settle.ErrNewGeneration)
	}
	return position, nil
}

const moveFloor = `UPDATE t_consume_partition SET position = ?, event_id = ?, generation = ?
WHERE consumer_group = ? AND topic = ? AND number = ? AND owner = ? AND epoch = ? AND position < ?`

// raise moves a floor that guard has let pass. A floor never goes back.
func raise(db context.Context, tx *sql.Tx, group string, m settle.FloorMove) error {
	_, err := tx.ExecContext(db, moveFloor, m.To.Position, m.To.EventID, m.To.Generation,
		group, m.Partition.Topic, m.Partition.Number, m.Partition.Owner, m.Partition.Epoch, m.To.Position)
	if err != nil {
		return fmt.Errorf("move floor of partition %d of %s: %w", m.Partition.Number, m.Partition.Topic, err)
	}
	return nil
}

// finish writes what belongs to the work as a whole.
func (a *apply) finish(db context.Context, moves []consumelog.SeqMove) error {
	for _, m := range moves {
		if err := a.moveSeq(db, m); err != nil {
			return err
		}
	}
	for _, key := range a.keys {
		if err := promote(db, a.tx, a.w.Group, key, a.w.OrderedBySeq, a.now); err != nil {
			return err
		}
	}
	for _, m := range a.w.Floors {
		if err := raise(db, a.tx, a.w.Group, m); err != nil {
			return err
		}
	}
	return nil
}

const readVersion = `SELECT version FROM settle_control_version`

const readControls = `SELECT kind, name FROM settle_control ORDER BY kind, name`

// Controls implements settle.Inbox.
func (in *Inbox) Controls(ctx context.Context) (settle.Controls, error) {
	var c settle.Controls
	tx, err := in.s.snapshot(ctx)
	if err != nil {
		return c, err
	}
	defer func() { _ = tx.Rollback() }()
	if err := tx.QueryRowContext(ctx, readVersion).Scan(&c.Version); err != nil {
		return c, fmt.Errorf("read controls: %w", err)
	}
	err = each(ctx, tx, func(rows *sql.Rows) error {
		var r settle.Control
		err := rows.Scan(&r.Kind, &r.Name)
		c.Rows = append(c.Rows, r)
		return err
	}, readControls)
	if err != nil {
		return settle.Controls{}, fmt.Errorf("read controls: %w", err)
	}
	return c, nil
}
