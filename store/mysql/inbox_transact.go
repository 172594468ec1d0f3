package mysql

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

// manner is how a transaction belongs to the work.
type manner int

const (
	// together: it is the whole work, and moves its floors.
	together manner = iota
	// piecemeal: it is a part of the work. It has the fence of the floors, and
	// leaves them to the last transaction.
	piecemeal
)

// apply is one transaction of Inbox.Apply.
type apply struct {
	in *Inbox
	// shared is what foreign consumers know of; nil: there are none.
	shared *shared
	watch  *watched // below tx
	tx     *sql.Tx
	w      *settle.Work
	how    manner
	items  []consumelog.Item
	now    time.Time
	// known are the events of which there is a log row, as far as was read.
	known map[string]bool
	// own are those of which this transaction has inserted it.
	own map[string]bool
	// busy are keys that another process works on at this moment.
	busy map[string]bool
	// later is what is written before the commit and not needed before.
	later []func(db context.Context) error
	keys  []string
}

// ours is a context for the store's own statements, which are bounded and are
// not torn by the end of ctx: that would cost the connection.
func (s *Store) ours(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.bound())
}

func (s *Store) bound() time.Duration { return 2 * (s.cfg.StatementTimeout + s.cfg.LockTimeout) }

// transact does the items of w in one transaction.
func (in *Inbox) transact(ctx context.Context, w *settle.Work, how manner, handle handler) (o outcome) {
	o.failed = -1
	conn, err := in.s.consume.Conn(ctx)
	if err != nil {
		o.err = fmt.Errorf("begin transaction: %w", err)
		return o
	}
	defer func() {
		_ = conn.Close()
		in.s.left(o.err)
	}()
	db, cancel := in.s.ours(ctx)
	defer cancel()
	// The transaction outlives db: handlers have their own time. Its context
	// ends only when a server does not answer a commit.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	a := &apply{in: in, w: w, how: how, shared: in.share(w.Group), known: map[string]bool{}, busy: map[string]bool{}}
	if err := a.begin(life, db, conn); err != nil {
		o.err = fmt.Errorf("begin transaction: %w", err)
		return o
	}
	defer func() { _ = a.tx.Rollback() }()
	a.work(ctx, db, handle, &o)
	if o.err != nil || o.failed >= 0 || o.results == nil {
		return o
	}
	in.s.cfg.Crash("consume.before_commit")
	// Crash here: nothing of the transaction has happened, it is done again.
	defer time.AfterFunc(in.s.bound(), end).Stop()
	if err := a.tx.Commit(); err != nil {
		o.err = &commitError{err}
	}
	// Crash here: all of it is done and durable; what is delivered again is a
	// duplicate.
	return o
}

const (
	// The savepoint goes with the transaction: whatever commits it or rolls it
	// back, a statement, a deadlock or a setting of the server, takes it away.
	markTransaction  = `SAVEPOINT settle_apply`
	proveTransaction = `RELEASE SAVEPOINT settle_apply`
)

func (a *apply) begin(life, db context.Context, conn *sql.Conn) (err error) {
	if a.tx, err = conn.BeginTx(life, nil); err != nil {
		return err
	}
	err = conn.Raw(func(dc any) error {
		a.watch = dc.(*watched)
		a.watch.watch()
		return nil
	})
	if err == nil {
		_, err = a.tx.ExecContext(db, markTransaction)
	}
	if err != nil {
		return errors.Join(err, a.tx.Rollback())
	}
	return nil
}

// whole returns an error when the transaction is not the one that was begun.
func (a *apply) whole(db context.Context) error {
	_, err := a.tx.ExecContext(db, proveTransaction)
	if hasCode(err, codeNoSavepoint) {
		return errRolledBack
	}
	return err
}

// work does everything of a transaction but its beginning and its commit.
func (a *apply) work(ctx, db context.Context, handle handler, o *outcome) {
	f, err := a.load(db)
	if err != nil {
		o.err = err
		return
	}
	steps, moves := consumelog.Plan(a.w, a.items, f)
	results := make([]settle.Result, len(steps))
	for i := range steps {
		if o.err = ctx.Err(); o.err != nil {
			return
		}
		ok, err := a.do(ctx, i, &steps[i], &results[i], handle, o)
		if err != nil {
			o.err = fmt.Errorf("record event %s of group %s: %w", a.items[i].EventID, a.w.Group, err)
			return
		}
		if !ok {
			o.fail(ctx, results, i)
			return
		}
	}
	if a.w.BeforeCommit != nil && !a.decided(ctx, results, o) {
		return
	}
	// Handlers have had their time, so the bound is another one.
	end, cancel := a.in.s.ours(ctx)
	defer cancel()
	if o.err = a.finish(end, moves); o.err == nil {
		o.results = results
	}
}

// fail ends a transaction whose item i has failed. A context that has ended is
// nobody's attempt.
func (o *outcome) fail(ctx context.Context, results []settle.Result, i int) {
	if o.err = ctx.Err(); o.err != nil {
		return
	}
	for j := range results {
		if j != i {
			results[j] = settle.Result{Verdict: settle.VerdictNotRun}
		}
	}
	o.results, o.failed = results, i
}

// decided asks whether the transaction is to be committed. When it is not, its
// items were not run.
func (a *apply) decided(ctx context.Context, results []settle.Result, o *outcome) bool {
	a.watch.watch()
	res, failed := contain(func() error { return a.w.BeforeCommit(ctx) })
	if o.err = a.broken(ctx, 0, &res, failed, time.Now()); o.err != nil {
		return false
	}
	if res.Err == nil {
		return true
	}
	if o.err = ctx.Err(); o.err != nil {
		return false
	}
	for i := range results {
		results[i] = settle.Result{Verdict: settle.VerdictNotRun, Err: res.Err}
	}
	o.results, o.failed = results, 0
	return false
}

// do runs the handler of item i, if it is to run, and writes its step. It
// returns false when the handler failed.
func (a *apply) do(ctx context.Context, i int, s *consumelog.Step, res *settle.Result, handle handler, o *outcome) (bool, error) {
	res.Verdict = s.Verdict
	if s.Run {
		if err := a.logFirst(ctx, i, s); err != nil {
			return false, err
		}
		o.called = true
		a.watch.watch()
		began := time.Now()
		out, failed := contain(func() error { return handle(ctx, a.tx, i) })
		rej, rejected := settle.Rejected(out.Err)
		rejected = rejected && out.Panic == ""
		if err := a.broken(ctx, i, &out, failed && !rejected, began); err != nil {
			return false, err
		}
		switch {
		case out.Verdict == settle.VerdictFailed && !rejected:
			*res = out
			return false, nil
		case rejected:
			res.Verdict, res.Err = settle.VerdictRejected, out.Err
			a.reject(i, s, rej.Reason)
		}
	} else {
		a.put(func(db context.Context) error { return a.log(db, i, s) })
	}
	return true, a.aftermath(i, s)
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

// put leaves a write for the end of the transaction.
func (a *apply) put(write func(db context.Context) error) { a.later = append(a.later, write) }

// exec leaves a statement for the end of the transaction.
func (a *apply) exec(query string, args ...any) {
	a.put(func(db context.Context) error {
		_, err := a.tx.ExecContext(db, query, args...)
		return err
	})
}

// finish writes what belongs to the work as a whole, and all that could wait,
// and proves that it is still the one transaction.
func (a *apply) finish(db context.Context, moves []consumelog.SeqMove) error {
	for _, write := range a.later {
		if err := write(db); err != nil {
			return fmt.Errorf("write consumed events: %w", err)
		}
	}
	for _, m := range moves {
		if _, err := a.tx.ExecContext(db, writeSeq, a.w.Group, fit(m.AggregateType), m.AggregateID, m.Last); err != nil {
			return fmt.Errorf("move sequence of %s %s: %w", m.AggregateType, m.AggregateID, err)
		}
	}
	for _, key := range a.keys {
		if err := promote(db, a.tx, a.w.Group, key, a.w.OrderedBySeq, a.in.s.member, a.now); err != nil {
			return fmt.Errorf("make the next event of key %s due: %w", key, err)
		}
	}
	if a.how == together {
		if err := raiseAll(db, a.tx, a.w); err != nil {
			return err
		}
	}
	return a.whole(db)
}
