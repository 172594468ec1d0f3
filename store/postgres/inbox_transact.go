package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/consumelog"
)

// manner is how a transaction belongs to the work.
type manner int

const (
	// together: it is the whole work, moves its floors, and is flushed.
	together manner = iota
	// piecemeal: it is a part of the work. It has the fence of the floors, and
	// leaves them and the flush to the last transaction.
	piecemeal
)

// apply is one transaction of Inbox.Apply.
type apply struct {
	in    *Inbox
	conn  *pgx.Conn // below tx, for statements that go out together
	tx    *sql.Tx
	w     *settle.Work
	how   manner
	items []consumelog.Item
	now   time.Time
	// known are the events of which there is a log row, as far as was read.
	known map[string]bool
	// own are those of which this transaction has inserted it.
	own map[string]bool
	// busy are keys that another process works on at this moment.
	busy map[string]bool
	// shared is what foreign consumers know of; nil: there are none.
	shared *shared
	// later is what is written before the commit and not needed before.
	later pgx.Batch
	keys  []string
}

// readCommitted, whatever the database's default is: after it has waited for
// another transaction a statement must see what that one has done.
var readCommitted = sql.TxOptions{Isolation: sql.LevelReadCommitted}

// ours is a context for the store's own statements, which are bounded and are
// not torn by the end of ctx: that would cost the connection.
func (s *Store) ours(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.bound())
}

func (s *Store) bound() time.Duration { return 2 * (s.cfg.StatementTimeout + s.cfg.LockTimeout) }

// transact does the items of w in one transaction.
func (in *Inbox) transact(ctx context.Context, w *settle.Work, how manner, handle handler) (o outcome) {
	o.failed = -1
	conn, err := in.s.db.Conn(ctx)
	if err != nil {
		o.err = fmt.Errorf("begin transaction: %w", err)
		return o
	}
	defer func() { _ = conn.Close() }()
	db, cancel := in.s.ours(ctx)
	defer cancel()
	// The transaction outlives db: handlers have their own time. Its context
	// ends only when a server does not answer a commit.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	tx, err := conn.BeginTx(life, &readCommitted)
	if err != nil {
		o.err = fmt.Errorf("begin transaction: %w", err)
		return o
	}
	defer func() { _ = tx.Rollback() }()
	a := &apply{in: in, tx: tx, w: w, how: how, shared: in.share(w.Group), known: map[string]bool{}, busy: map[string]bool{}}
	err = conn.Raw(func(dc any) error {
		a.conn = dc.(*stdlib.Conn).Conn()
		return nil
	})
	if err != nil {
		o.err = fmt.Errorf("begin transaction: %w", err)
		return o
	}
	a.work(ctx, db, handle, &o)
	if o.err != nil || o.failed >= 0 || o.results == nil {
		o.silent(len(w.Items))
		in.s.left(o.err)
		return o
	}
	in.s.crash("consume.before_commit")
	// Crash here: nothing of the transaction has happened, it is done again.
	defer time.AfterFunc(in.s.bound(), end).Stop()
	if err := tx.Commit(); err != nil {
		o.uncommitted(err)
	}
	// Crash here: all of it is done, and durable unless it was a piece; what
	// is delivered again is a duplicate.
	return o
}

// uncommitted takes the error of a commit. A constraint that is checked there,
// broken by one item alone, is the failure of its handler.
func (o *outcome) uncommitted(err error) {
	var e *pgconn.PgError
	if len(o.results) == 1 && errors.As(err, &e) && strings.HasPrefix(e.Code, classConstraint) {
		o.results[0], o.failed = settle.Result{Verdict: settle.VerdictFailed, Err: err}, 0
		return
	}
	o.err = &commitError{err}
	o.silent(len(o.results))
}

// silent finds that a handler, alone in its transaction, has said nothing to
// the database for longer than that waits: the handler's failure.
func (o *outcome) silent(items int) {
	if items != 1 || !o.called || !hasState(o.err, stateIdleTooLong) {
		return
	}
	err := fmt.Errorf("the handler has said nothing to the database for longer than idle_in_transaction_session_timeout; ask other systems by consumer.Ask: %w", o.err)
	o.results, o.failed, o.err = []settle.Result{{Verdict: settle.VerdictFailed, Err: err}}, 0, nil
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
	res, failed := contain(func() error { return a.w.BeforeCommit(ctx) })
	if !failed {
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
		out, failed := contain(func() error { return handle(ctx, a.tx, i) })
		rej, rejected := settle.Rejected(out.Err)
		rejected = rejected && out.Panic == ""
		if err := a.broken(ctx, &out, failed && !rejected); err != nil {
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
		a.log(&a.later, i, s)
	}
	return true, a.aftermath(i, s)
}

// States of a transaction, as the server tells with each answer.
const (
	txOpen    = 'T'
	txAborted = 'E'
)

// broken looks at what the handler has left. It returns an error where that is
// not the handler's fault, or says nothing of this one only, and makes out a
// failure where the transaction can't be committed any more. A handler's error
// speaks of our database only if our transaction has suffered: it may come from
// another server that it asked.
func (a *apply) broken(ctx context.Context, out *settle.Result, failed bool) error {
	c := a.conn.PgConn()
	hurt := c.IsClosed() || c.TxStatus() == txAborted
	switch {
	case failed && (errors.Is(out.Err, context.DeadlineExceeded) || errors.Is(out.Err, context.Canceled)):
		return nil // its time was over, which ends the connection
	case failed && hurt && faultOf(out.Err) != faultOther:
		return out.Err
	case c.IsClosed() && ctx.Err() == nil:
		return fmt.Errorf("run handler: %w", errors.Join(errLost, out.Err))
	case failed:
		return nil
	case c.IsBusy():
		*out = settle.Result{Verdict: settle.VerdictFailed, Err: errors.New("the handler has not closed what it read")}
	case c.TxStatus() == txAborted:
		*out = settle.Result{Verdict: settle.VerdictFailed, Err: errors.New("the handler has overlooked an error of the database: nothing of its transaction can be kept")}
	case c.TxStatus() != txOpen:
		return errors.New("run handler: it has ended the transaction, which it must not")
	}
	return nil
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

// finish writes what belongs to the work as a whole, and all that could wait.
func (a *apply) finish(db context.Context, moves []consumelog.SeqMove) error {
	for _, m := range moves {
		a.later.Queue(writeSeq, a.w.Group, clean(m.AggregateType), fit(m.AggregateID), m.Last)
	}
	for _, key := range a.keys {
		promote(&a.later, a.w.Group, key, a.w.OrderedBySeq, &a.in.s.member, a.in.s.clock())
	}
	if a.how == together {
		for _, m := range a.w.Floors {
			raise(&a.later, a.w.Group, m)
		}
	}
	return a.send(db, &a.later)
}

// send sends statements together, and returns the first error.
func (a *apply) send(db context.Context, b *pgx.Batch) error {
	if b.Len() == 0 {
		return nil
	}
	if err := a.conn.SendBatch(db, b).Close(); err != nil {
		return fmt.Errorf("write consumed events: %w", err)
	}
	return nil
}
