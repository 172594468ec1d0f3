package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/settlemq/settle"
)

// Deferred does a work the other way: each item in a transaction of its own
// that is not flushed, and one that is flushed after them, with the floors. A
// benchmark compares Apply with it.
func Deferred(ctx context.Context, in *Inbox, w settle.Work, handle func(context.Context, *sql.Tx, int) error) ([]settle.Result, error) {
	results := make([]settle.Result, len(w.Items))
	done := 0
	for i := range w.Items {
		one := w
		one.Items = w.Items[i : i+1]
		call := func(ctx context.Context, tx *sql.Tx, _ int) error { return handle(ctx, tx, i) }
		o := in.transact(ctx, &one, piecemeal, call)
		for try := 1; o.repeatable() && pause(ctx, try); try++ {
			o = in.transact(ctx, &one, piecemeal, call)
		}
		if o.err != nil {
			return nil, o.err
		}
		results[i] = o.results[0]
		if results[i].Verdict.Durable() {
			done++
		}
	}
	if done == 0 {
		return nil, errors.New(fmt.Sprint("none of ", len(w.Items), " items is done"))
	}
	return results, in.flush(ctx, &w, done == len(w.Items))
}

// MeetsDeadlocks reports whether a group's events are done one by one.
func MeetsDeadlocks(s *Store, group string) bool { return s.crowd.meets(group, time.Now()) }
