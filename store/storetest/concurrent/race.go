package concurrent

import (
	"context"
	"database/sql"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
)

const (
	applied   = settle.VerdictApplied
	duplicate = settle.VerdictDuplicate
)

// pair is two processes on one database, of which the second acts while the
// first is in a handler. It needs Process.Waiting.
type pair struct {
	*testing.T
	first, second Process
}

func newPair(t *testing.T, open Open) *pair {
	t.Helper()
	all := processes(t, open, 2)
	return &pair{T: t, first: all[0], second: all[1]}
}

// meanwhile lets the first process apply items and the second one act, from
// within the handler of the last item, until it waits for the first or is done.
func (p *pair) meanwhile(items []settle.Item, act func()) []settle.Verdict {
	p.Helper()
	return p.meanwhileAt(len(items)-1, items, act)
}

func (p *pair) meanwhileAt(at int, items []settle.Item, act func()) []settle.Verdict {
	p.Helper()
	var wg sync.WaitGroup
	once := sync.OnceFunc(func() {
		done := make(chan struct{})
		wg.Go(func() { defer close(done); act() })
		p.untilBlocked(done)
	})
	got := p.apply(&p.first, items, func(i int) {
		if i == at {
			once()
		}
	})
	wg.Wait()
	return got
}

// untilBlocked returns when a connection of the pair waits for a lock, or done is
// closed.
func (p *pair) untilBlocked(done chan struct{}) {
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		select {
		case <-done:
			return
		default:
		}
		waiting, err := p.first.Waiting(p.Context())
		if err != nil {
			p.Error(err)
			return
		}
		if waiting > 0 {
			return
		}
	}
	p.Error("the second process neither waits nor is done")
}

func (p *pair) apply(by *Process, items []settle.Item, in func(i int)) []settle.Verdict {
	results, err := by.Inbox.Apply(p.Context(), settle.Work{Group: "g", Items: items}, func(ctx context.Context, tx *sql.Tx, i int) error {
		in(i)
		return by.WriteEffect(ctx, tx, items[i].Record.Event.ID)
	})
	if err != nil {
		p.Errorf("Apply: %v", err)
	}
	return Verdicts(results)
}

func (p *pair) applySecond(items ...settle.Item) (got []settle.Verdict) {
	return p.apply(&p.second, items, func(int) {})
}

func (p *pair) want(got []settle.Verdict, want ...settle.Verdict) {
	p.Helper()
	wantVerdicts(p.T, got, want...)
}

func (p *pair) wantEffects(want ...string) {
	p.Helper()
	if got, err := Effects(p.Context(), p.first.Reader); err != nil || !slices.Equal(got, want) {
		p.Errorf("effects are %v, %v, want %v", got, err, want)
	}
}

const leaveOver = `INSERT INTO t_message_consume_log (consumer_group, event_id, status, processed_at) VALUES ('g', 'a-001', 'PROCESSING', ?)`

// leaveOver writes that a foreign consumer has begun event a-001, an hour ago.
func (p *pair) leaveOver() {
	p.Helper()
	if _, err := p.first.DB.ExecContext(p.Context(), p.first.sql(leaveOver), time.Now().Add(-time.Hour).UTC()); err != nil {
		p.Fatal(err)
	}
}

// LeftOverRow lets two processes take over what a foreign consumer has begun.
func LeftOverRow(t *testing.T, open Open) {
	p := newPair(t, open)
	p.leaveOver()
	p.want(p.meanwhile([]settle.Item{Item("a", 1)}, func() { p.want(p.applySecond(Item("a", 1)), duplicate) }), applied)
	p.wantEffects("a-001")
}

// ForeignEnd lets the foreign consumer end what is being taken over. It is too
// late.
func ForeignEnd(t *testing.T, open Open) {
	p := newPair(t, open)
	p.leaveOver()
	got := p.meanwhileAt(0, []settle.Item{Item("b", 1), Item("a", 1)}, func() {
		res, err := p.second.DB.ExecContext(t.Context(), `UPDATE t_message_consume_log SET status = 'SUCCESS' WHERE event_id = 'a-001' AND status = 'PROCESSING'`)
		if err != nil {
			t.Error(err)
			return
		}
		if n, err := res.RowsAffected(); err != nil || n != 0 {
			t.Errorf("it ends %d events that we have taken over, %v", n, err)
		}
	})
	p.want(got, applied, applied)
}

// EditOfTried lets an edit come while its first event is tried again.
func EditOfTried(t *testing.T, open Open) {
	p := newPair(t, open)
	p.want(p.applySecond(parked(Item("a", 1))), settle.VerdictParked)
	due, err := p.first.Inbox.Due(t.Context(), "g", 10)
	if err != nil {
		t.Fatal(err)
	}
	p.want(p.meanwhile(due.Items, func() { p.want(p.applySecond(insteadOf(Item("a", 1), "edit")), duplicate) }), applied)
	p.wantEffects("a-001")
}

// EditOfApplied lets an edit come while its first event is applied.
func EditOfApplied(t *testing.T, open Open) {
	p := newPair(t, open)
	p.want(p.meanwhile([]settle.Item{Item("a", 1)}, func() { p.want(p.applySecond(insteadOf(Item("a", 1), "edit")), duplicate) }), applied)
	p.wantEffects("a-001")
}

// FirstOfEdit lets an event come while its edit is applied.
func FirstOfEdit(t *testing.T, open Open) {
	p := newPair(t, open)
	p.want(p.meanwhile([]settle.Item{insteadOf(Item("a", 1), "edit")}, func() { p.want(p.applySecond(Item("a", 1)), duplicate) }), applied)
	p.wantEffects("edit")
}

// SameEdit gives an edit to two processes.
func SameEdit(t *testing.T, open Open) {
	p := newPair(t, open)
	edit := insteadOf(Item("a", 1), "edit")
	p.want(p.meanwhile([]settle.Item{edit}, func() { p.want(p.applySecond(edit), duplicate) }), applied)
	p.wantEffects("edit")
}

// SameEffectKey gives events with one effect key to two processes.
func SameEffectKey(t *testing.T, open Open) {
	p := newPair(t, open)
	a, b := Item("a", 1), Item("b", 1)
	a.EffectKey, b.EffectKey = "payment-1", "payment-1"
	p.want(p.meanwhile([]settle.Item{a}, func() { p.want(p.applySecond(b), duplicate) }), applied)
	p.wantEffects("a-001")
}

// DiscardedMeanwhile lets an event come to wait behind a dead one while a person
// discards that. It must not wait for ever.
func DiscardedMeanwhile(t *testing.T, open Open) {
	p := newPair(t, open)
	dead := Item("a", 1)
	dead.Intent, dead.Class, dead.Cause = settle.IntentDie, settle.ClassHandler, "no stock"
	p.want(p.applySecond(dead), settle.VerdictDead)
	got := p.meanwhile([]settle.Item{Item("a", 2), Item("b", 1)}, func() {
		letters, err := p.second.Governance.DeadLetters(t.Context(), govern.Filter{})
		if err != nil || len(letters) != 1 {
			t.Errorf("DeadLetters gives %v, %v", letters, err)
			return
		}
		out, err := p.second.Governance.Discard(t.Context(), govern.Act{By: "ann", Reason: "no use"}, letters[0].ID)
		if err != nil || out[0].Result != "done" {
			t.Errorf("Discard gives %v, %v", out, err)
		}
	})
	p.want(got, settle.VerdictBlocked, applied)
	p.second.drain(t, "g", func() bool { return true })
	p.wantEffects("b-001", "a-002")
}

// TriedElsewhere gives a waiting event that is being tried to another process:
// it is nobody else's business.
func TriedElsewhere(t *testing.T, open Open) {
	p := newPair(t, open)
	p.want(p.applySecond(parked(Item("a", 1)), Item("a", 2)), settle.VerdictParked, settle.VerdictBlocked)
	due, err := p.first.Inbox.Due(t.Context(), "g", 10)
	if err != nil || len(due.Items) != 2 {
		t.Fatalf("Due gives %v, %v", due, err)
	}
	got := p.meanwhile(due.Items, func() { p.want(p.applySecond(due.Items...), settle.VerdictStored, settle.VerdictStored) })
	p.want(got, applied, applied)
	p.wantEffects("a-001", "a-002")
}
