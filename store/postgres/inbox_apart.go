package postgres

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/consumelog"
)

// apart does the items of w one by one, after what became of them together. It
// keeps what it can; what follows a failed item in its key is not run.
func (in *Inbox) apart(ctx context.Context, w settle.Work, handle handler, before outcome) ([]settle.Result, error) {
	results := make([]settle.Result, len(w.Items))
	held := map[string]bool{}
	durable, last := 0, before.err
	for i := range w.Items {
		key := consumelog.NewItem(&w.Items[i], 0).Key
		switch {
		case i == before.failed:
			results[i] = before.results[i]
		case !w.Pass && key != "" && held[key]:
			results[i] = settle.Result{Verdict: settle.VerdictNotRun}
			continue
		default:
			o := in.single(ctx, w, i, handle)
			switch {
			case o.err == nil:
				results[i] = o.results[0]
			case faultOf(o.err) != faultConflict || ctx.Err() != nil:
				return nil, o.err
			default:
				last = o.err
				results[i] = settle.Result{Verdict: settle.VerdictNotRun, Err: o.err}
			}
		}
		if results[i].Verdict.Durable() {
			durable++
		} else {
			held[key] = true
		}
	}
	switch {
	case durable > 0:
		if err := in.flush(ctx, &w, durable == len(results)); err != nil {
			return nil, err
		}
	case before.failed < 0 && last != nil:
		return nil, last
	}
	return results, nil
}

// single does one item in a transaction of its own, and again while others are
// in the way.
func (in *Inbox) single(ctx context.Context, w settle.Work, i int, handle handler) outcome {
	w.Items = w.Items[i : i+1]
	shifted := func(ctx context.Context, tx *sql.Tx, _ int) error { return handle(ctx, tx, i) }
	o := in.transact(ctx, &w, alone, shifted)
	for try := 1; o.repeatable() && pause(ctx, try); try++ {
		o = in.transact(ctx, &w, alone, shifted)
	}
	return o
}

// A commit that has written nothing waits for no flush.
const writeSomething = `SELECT pg_logical_emit_message(true, 'settle', '')`

// flush makes durable what was committed before it. With floors it moves them,
// too: all up to there is done.
//
// Crash here: what was applied apart may be lost, wholly, from some item on; it
// was not acknowledged and is delivered again.
func (in *Inbox) flush(ctx context.Context, w *settle.Work, floors bool) error {
	ctx, cancel := in.s.ours(ctx)
	defer cancel()
	tx, err := in.s.business.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return fmt.Errorf("flush consumed events: %w", err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	var b pgx.Batch
	b.Queue(applySettings, in.s.applySettings(together)...)
	owned := newOwnership(w)
	owned.queue(&b)
	b.Queue(writeSomething)
	if floors {
		for _, m := range w.Floors {
			raise(&b, w.Group, m)
		}
	}
	if err := tx.SendBatch(ctx, &b).Close(); err != nil {
		return fmt.Errorf("flush consumed events: %w", err)
	}
	if err := owned.check(); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return &commitError{err}
	}
	return nil
}
