package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/consumelog"
)

// pieces does a work in several transactions, after it came to nothing in one.
// It keeps what it can.
type pieces struct {
	in      *Inbox
	w       settle.Work
	handle  handler
	results []settle.Result
	// done are the items that have a result; keys the items' keys, and held
	// those of which nothing more is to be done, because what came before failed.
	done []bool
	keys []string
	held map[string]bool
	// size is how many items the next transaction takes: what succeeds may
	// grow, what fails shrinks, so that many failures cost no more than as many
	// transactions.
	size int
	// single is true when size stays one: larger ones get into deadlocks.
	single bool
	// conflicts are the tries in a row that others were in the way of, givenUp
	// the items that they stayed in the way of.
	conflicts, givenUp int
}

// maxGivenUp is after how many items the rest is left for another Apply: what
// is in the way of several may be in the way of all.
const maxGivenUp = 2

// apart does w in pieces, after what became of it together.
func (in *Inbox) apart(ctx context.Context, w settle.Work, handle handler, before outcome) ([]settle.Result, error) {
	n := len(w.Items)
	p := &pieces{
		in: in, w: w, handle: handle, results: make([]settle.Result, n), done: make([]bool, n), keys: make([]string, n),
		held: map[string]bool{}, size: n, single: before.results == nil && before.err == nil,
	}
	all := make([]int, n)
	for i := range w.Items {
		all[i], p.keys[i] = i, consumelog.NewItem(&w.Items[i], 0).Key
	}
	if !p.single {
		p.learn(all, before)
	}
	for {
		piece := p.next()
		if len(piece) == 0 {
			return p.end(ctx, before.err)
		}
		o := p.transact(ctx, piece)
		if o.err != nil && (!o.repeatable() || ctx.Err() != nil) {
			return nil, explain(o.err)
		}
		p.learn(piece, o)
		if o.err == nil {
			continue
		}
		if faultOf(o.err) == faultLost && p.conflicts >= maxTries || !pause(ctx, min(p.conflicts, maxTries-1)) {
			return nil, o.err
		}
	}
}

// next returns the items of the next transaction, in order.
func (p *pieces) next() []int {
	var piece []int
	for i := range p.done {
		switch {
		case p.done[i]:
		case p.held[p.keys[i]], p.givenUp >= maxGivenUp:
			p.settle(i, settle.Result{Verdict: settle.VerdictNotRun})
		case len(piece) < p.size && (!p.single || len(piece) == 0):
			piece = append(piece, i)
		}
	}
	return piece
}

func (p *pieces) transact(ctx context.Context, piece []int) outcome {
	w := p.w
	w.Items = make([]settle.Item, len(piece))
	for at, i := range piece {
		w.Items[at] = p.w.Items[i]
	}
	return p.in.transact(ctx, &w, piecemeal, func(ctx context.Context, tx *sql.Tx, at int) error { return p.handle(ctx, tx, piece[at]) })
}

// learn takes what became of some items, and decides how many are next.
func (p *pieces) learn(piece []int, o outcome) {
	switch {
	case o.err != nil:
		if hasState(o.err, stateDeadlock) {
			p.single = true
			p.in.s.crowd.met(p.w.Group, time.Now())
		}
		p.conflicts++
		p.size = max(1, len(piece)/2)
		if len(piece) == 1 && p.conflicts >= maxTries {
			p.settle(piece[0], settle.Result{Verdict: settle.VerdictNotRun, Err: o.err})
			p.conflicts = 0
			p.givenUp++
		}
	case o.failed >= 0:
		// What came before it is known to succeed.
		p.settle(piece[o.failed], o.results[o.failed])
		if p.size = o.failed; p.size == 0 {
			p.size = max(1, len(piece)/2)
		}
	default:
		for at, i := range piece {
			p.settle(i, o.results[at])
		}
		p.conflicts, p.size = 0, 2*len(piece)
	}
}

// settle sets the result of an item. What was not done holds its key.
func (p *pieces) settle(i int, r settle.Result) {
	p.results[i], p.done[i] = r, true
	if !r.Verdict.Durable() && !p.w.Pass && p.keys[i] != "" {
		p.held[p.keys[i]] = true
	}
}

// end makes durable what was done.
func (p *pieces) end(ctx context.Context, before error) ([]settle.Result, error) {
	durable, failed := 0, 0
	for i := range p.results {
		switch {
		case p.results[i].Verdict.Durable():
			durable++
		case p.results[i].Verdict == settle.VerdictFailed:
			failed++
		default:
			before = errors.Join(before, p.results[i].Err)
		}
	}
	if durable > 0 {
		if err := p.in.flush(ctx, &p.w, durable == len(p.results)); err != nil {
			return nil, err
		}
	}
	if durable+failed == 0 {
		return nil, before
	}
	return p.results, nil
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
