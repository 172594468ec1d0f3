package mysql_test

import (
	"context"
	"database/sql"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/mysql"
)

// pair is two processes on one database, of which the second acts while the
// first is in a handler.
type pair struct {
	*testing.T
	first, second *mysql.Store
}

func newPair(t *testing.T) *pair {
	t.Helper()
	stores := processes(t, 2)
	return &pair{T: t, first: stores[0], second: stores[1]}
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
	got := p.apply(p.first, items, func(i int) {
		if i == at {
			once()
		}
	})
	wg.Wait()
	return got
}

const waitsHere = `SELECT count(*) FROM information_schema.innodb_trx t JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
WHERE t.trx_state = 'LOCK WAIT' AND p.db = DATABASE()`

// untilBlocked returns when a connection of the pair waits for a lock, or done is
// closed. The server shows the same until nobody has asked for 0.1 s.
func (p *pair) untilBlocked(done chan struct{}) {
	tick := time.NewTicker(120 * time.Millisecond)
	defer tick.Stop()
	for range 80 {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		var waiting int
		if err := p.first.Reader().QueryRow(waitsHere).Scan(&waiting); err != nil {
			p.Error(err)
			return
		}
		if waiting > 0 {
			return
		}
	}
	p.Error("the second process neither waits nor is done")
}

func (p *pair) apply(s *mysql.Store, items []settle.Item, in func(i int)) []settle.Verdict {
	results, err := s.Inbox().Apply(p.Context(), settle.Work{Group: "g", Items: items}, func(ctx context.Context, tx *sql.Tx, i int) error {
		in(i)
		return writeEffect(ctx, tx, items[i].Record.Event.ID)
	})
	if err != nil {
		p.Errorf("Apply: %v", err)
	}
	return verdicts(results)
}

func (p *pair) applySecond(items ...settle.Item) (got []settle.Verdict) {
	return p.apply(p.second, items, func(int) {})
}

func (p *pair) want(got []settle.Verdict, want ...settle.Verdict) {
	p.Helper()
	if !slices.Equal(got, want) {
		p.Errorf("verdicts are %v, want %v", got, want)
	}
}

func (p *pair) wantEffects(want ...string) {
	p.Helper()
	if got, err := effects(p.Context(), p.first.Reader()); err != nil || !slices.Equal(got, want) {
		p.Errorf("effects are %v, %v, want %v", got, err, want)
	}
}

// insteadOf makes an item of an event that was edited from another of its key.
func insteadOf(it settle.Item, id string) settle.Item {
	e := *it.Record.Event
	e.ID, e.Supersedes = id, it.Record.Event.ID
	it.Record.Event, it.Record.Raw = &e, settle.AppendEnvelope(nil, &e)
	return it
}

const (
	applied   = settle.VerdictApplied
	duplicate = settle.VerdictDuplicate
)

func TestALeftOverRowThatTwoProcessesTakeOverTakesEffectOnce(t *testing.T) {
	p := newPair(t)
	_, err := p.first.DB().Exec(`INSERT INTO t_message_consume_log (consumer_group, event_id, status, processed_at) VALUES ('g', 'a-001', 'PROCESSING', UTC_TIMESTAMP() - INTERVAL 1 HOUR)`)
	if err != nil {
		t.Fatal(err)
	}
	p.want(p.meanwhile([]settle.Item{eventOn("a", 1)}, func() { p.want(p.applySecond(eventOn("a", 1)), duplicate) }), applied)
	p.wantEffects("a-001")
}

func TestAForeignConsumerThatEndsWhatIsBeingTakenOverIsTooLate(t *testing.T) {
	p := newPair(t)
	_, err := p.first.DB().Exec(`INSERT INTO t_message_consume_log (consumer_group, event_id, status, processed_at) VALUES ('g', 'a-001', 'PROCESSING', UTC_TIMESTAMP() - INTERVAL 1 HOUR)`)
	if err != nil {
		t.Fatal(err)
	}
	got := p.meanwhileAt(0, []settle.Item{eventOn("b", 1), eventOn("a", 1)}, func() {
		res, err := p.second.DB().Exec(`UPDATE t_message_consume_log SET status = 'SUCCESS' WHERE event_id = 'a-001' AND status = 'PROCESSING'`)
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

func TestAnEditThatComesWhileItsFirstEventIsTriedAgainIsADuplicate(t *testing.T) {
	p := newPair(t)
	parked := eventOn("a", 1)
	parked.Intent, parked.Class, parked.Cause = settle.IntentPark, settle.ClassHandler, "no stock"
	p.want(p.applySecond(parked), settle.VerdictParked)
	due, err := p.first.Inbox().Due(t.Context(), "g", 10)
	if err != nil {
		t.Fatal(err)
	}
	p.want(p.meanwhile(due.Items, func() { p.want(p.applySecond(insteadOf(eventOn("a", 1), "edit")), duplicate) }), applied)
	p.wantEffects("a-001")
}

func TestAnEditThatComesWhileItsFirstEventIsAppliedIsADuplicate(t *testing.T) {
	p := newPair(t)
	p.want(p.meanwhile([]settle.Item{eventOn("a", 1)}, func() { p.want(p.applySecond(insteadOf(eventOn("a", 1), "edit")), duplicate) }), applied)
	p.wantEffects("a-001")
}

func TestAnEventThatComesWhileItsEditIsAppliedIsADuplicate(t *testing.T) {
	p := newPair(t)
	p.want(p.meanwhile([]settle.Item{insteadOf(eventOn("a", 1), "edit")}, func() { p.want(p.applySecond(eventOn("a", 1)), duplicate) }), applied)
	p.wantEffects("edit")
}

func TestAnEditThatTwoProcessesHaveTakesEffectOnce(t *testing.T) {
	p := newPair(t)
	edit := insteadOf(eventOn("a", 1), "edit")
	p.want(p.meanwhile([]settle.Item{edit}, func() { p.want(p.applySecond(edit), duplicate) }), applied)
	p.wantEffects("edit")
}

func TestAnEffectKeyThatTwoProcessesHaveTakesEffectOnce(t *testing.T) {
	p := newPair(t)
	a, b := eventOn("a", 1), eventOn("b", 1)
	a.EffectKey, b.EffectKey = "payment-1", "payment-1"
	p.want(p.meanwhile([]settle.Item{a}, func() { p.want(p.applySecond(b), duplicate) }), applied)
	p.wantEffects("a-001")
}

// What comes to wait behind a dead event while a person discards that must not
// wait for ever.
func TestAnEventThatComesToWaitWhileWhatItWaitsForIsDiscardedBecomesDue(t *testing.T) {
	p := newPair(t)
	dead := eventOn("a", 1)
	dead.Intent, dead.Class, dead.Cause = settle.IntentDie, settle.ClassHandler, "no stock"
	p.want(p.applySecond(dead), settle.VerdictDead)
	got := p.meanwhile([]settle.Item{eventOn("a", 2), eventOn("b", 1)}, func() {
		letters, err := p.second.Governance().DeadLetters(t.Context(), govern.Filter{})
		if err != nil || len(letters) != 1 {
			t.Errorf("DeadLetters gives %v, %v", letters, err)
			return
		}
		out, err := p.second.Governance().Discard(t.Context(), govern.Act{By: "ann", Reason: "no use"}, letters[0].ID)
		if err != nil || out[0].Result != "done" {
			t.Errorf("Discard gives %v, %v", out, err)
		}
	})
	p.want(got, settle.VerdictBlocked, applied)
	drain(t, p.second, "g", func() bool { return true })
	p.wantEffects("b-001", "a-002")
}

// A waiting event that is being tried is nobody else's business.
func TestWhatAnotherProcessWorksOnIsStoredAndWaitedForByNobody(t *testing.T) {
	p := newPair(t)
	parked := eventOn("a", 1)
	parked.Intent, parked.Class, parked.Cause = settle.IntentPark, settle.ClassHandler, "no stock"
	p.want(p.applySecond(parked, eventOn("a", 2)), settle.VerdictParked, settle.VerdictBlocked)
	due, err := p.first.Inbox().Due(t.Context(), "g", 10)
	if err != nil || len(due.Items) != 2 {
		t.Fatalf("Due gives %v, %v", due, err)
	}
	got := p.meanwhile(due.Items, func() { p.want(p.applySecond(due.Items...), settle.VerdictStored, settle.VerdictStored) })
	p.want(got, applied, applied)
	p.wantEffects("a-001", "a-002")
}
