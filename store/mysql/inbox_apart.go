package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

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
		held: map[string]bool{}, size: n, single: hasCode(before.err, codeDeadlock),
	}
	all := make([]int, n)
	for i := range w.Items {
		all[i], p.keys[i] = i, consumelog.NewItem(&w.Items[i], 0).Key
	}
	p.learn(all, before)
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
		p.single = p.single || hasCode(o.err, codeDeadlock)
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

// end moves the floors when all was done, and says what became of each item.
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
	if durable == len(p.results) && len(p.w.Floors) > 0 {
		if err := p.in.flush(ctx, &p.w); err != nil {
			return nil, err
		}
	}
	if durable+failed == 0 {
		return nil, before
	}
	return p.results, nil
}

// flush moves the floors, after all up to there was done in pieces. Each piece
// is durable by its own commit.
//
// Crash here: what was applied apart is delivered again and is a duplicate.
func (in *Inbox) flush(ctx context.Context, w *settle.Work) error {
	err := in.s.write(ctx, in.s.own, func(tx *sql.Tx) error {
		if err := guard(ctx, tx, w); err != nil {
			return err
		}
		return raiseAll(ctx, tx, w)
	})
	if err != nil {
		return fmt.Errorf("move floors of group %s: %w", w.Group, err)
	}
	return nil
}
