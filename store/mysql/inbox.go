package mysql

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/settlemq/settle"
)

// Inbox keeps what consumer groups have done in the database of the business.
//
// Apply does all its items in one transaction, with one commit for all, as long
// as every handler succeeds. When one fails, or another transaction is in the
// way, it is rolled back wholly, and the items are done in pieces, down to one
// by one; the floors move after the last of them. An item whose handler has
// failed is not handled again by the same Apply; others may be, after a rollback.
//
// Any number of processes may apply at the same time. An event that two of them
// have in hand waits in its unique log row; a waiting event that another
// process works on is VerdictStored.
//
// A handler can't end the transaction: what would commit it (DDL does) is
// refused, and what ends it all the same is noticed.
type Inbox struct {
	s *Store
}

// Inbox returns the database as the database of consumer groups.
func (s *Store) Inbox() *Inbox { return &Inbox{s: s} }

var _ settle.Inbox[*sql.Tx] = (*Inbox)(nil)

type handler func(ctx context.Context, tx *sql.Tx, i int) error

// outcome is what became of one transaction.
type outcome struct {
	results []settle.Result
	// failed is the item whose handler failed, so that nothing was kept; -1: none.
	failed int
	// called is true when a handler was called.
	called bool
	// err is the database's, or the context's. The handlers may be blameless.
	err error
}

// Apply implements settle.Inbox.
//
// Deadlocks, lock time-outs and lost connections are repeated a few times while nothing is known to be durable. What the server
// itself can't do (its disk is full, it can't be written to, it has no
// connection left) is returned, whoever has asked for it. So is an error of a
// commit: whether it holds is found in the log at redelivery.
func (in *Inbox) Apply(ctx context.Context, w settle.Work, handle func(context.Context, *sql.Tx, int) error) ([]settle.Result, error) {
	done := in.transact(ctx, &w, together, handle)
	for try := 1; done.again(&w, try) && pause(ctx, try); try++ {
		done = in.transact(ctx, &w, together, handle)
	}
	switch {
	case done.err == nil && done.failed < 0:
		return done.results, nil
	case done.err != nil && (!done.repeatable() || ctx.Err() != nil || len(w.Items) == 1):
		// A work of one may have effects outside: it is never done apart.
		return nil, explain(done.err)
	case w.BeforeCommit != nil:
		// What is to be decided once for all of it can't be done apart.
		return done.results, done.err
	case done.err == nil && len(w.Items) == 1:
		return done.results, nil
	}
	return in.apart(ctx, w, handle, done)
}

// maxTries is how often something is tried that others were in the way of.
const maxTries = 4

// pause waits before the next try, longer each time and never as long as
// another one that waits. It returns false when there is to be no other.
func pause(ctx context.Context, try int) bool {
	if try >= maxTries {
		return false
	}
	timer := time.NewTimer(jittered(5 * time.Millisecond << (2 * try)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// repeatable reports whether a transaction that came to nothing may come to
// something when it is done again.
func (o *outcome) repeatable() bool {
	f := faultOf(o.err)
	return f == faultConflict || f == faultLost
}

// again reports whether the whole work is to be tried together once more. What
// others are in the way of twice is better done in smaller pieces. A batch
// handler, which collects what it is called for, is not called twice for it.
func (o *outcome) again(w *settle.Work, try int) bool {
	if w.BeforeCommit != nil {
		return o.repeatable() && !o.called
	}
	if hasCode(o.err, codeDeadlock) && len(w.Items) > 1 {
		return false // and it would get into the same
	}
	return faultOf(o.err) == faultLost || faultOf(o.err) == faultConflict && (try == 1 || len(w.Items) == 1)
}

// errStale means that another transaction has changed what was decided upon.
var errStale = errors.New("another transaction has dealt with the event meanwhile")

// errLost means that the connection has gone.
var errLost = errors.New("the connection to the database is lost")
