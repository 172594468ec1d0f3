package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/txmsg"
)

// HalfStore is a database with nothing in it, as seen by the suite of half
// messages.
type HalfStore struct {
	Ledger     txmsg.Ledger
	Governance govern.Store
	// Transact is that of the store. write inserts a business row, under a key that
	// is there once; rows counts them outside of the transaction.
	Transact func(ctx context.Context, r txmsg.Record, f func(ctx context.Context, write func(key string) error) error) (txmsg.Outcome, error)
	Rows     func() int
	// Advance sets the clock that the database goes by forward.
	Advance func(d time.Duration)
}

// HalfCase is one rule of txmsg.Store, or of govern.Store for what it keeps.
type HalfCase struct {
	// Name is the rule as a sentence.
	Name string
	Run  func(t testing.TB, s HalfStore)
}

// HalfCases returns every rule. Each wants a database of its own.
func HalfCases() []HalfCase {
	return []HalfCase{
		{"a local transaction keeps its record and its rows, or neither", halfWhole},
		{"a check finds the record, and each is kept with its answer", halfJudged},
		{"a check that finds no record bars the transaction for ever", halfBarred},
		{"a check during the transaction does not know, and the transaction goes on", halfOpen},
		{"a record is due to be swept up after its time, and claimed by one", halfDue},
		{"what is confirmed is not due, and stays so", halfConfirmed},
		{"a record goes back whole: event, handle and tries", halfTells},
		{"what is given up is a dead letter, which a replay makes due again and a confirmation closes", halfReplayed},
		{"what is given up again is the same dead letter, open again", halfGivenUpAgain},
		{"what a person discards is not delivered any more", halfDiscarded},
		{"what has ended is deleted after its time, and what has not stays", halfPurged},
		{"answers are deleted too, and it is told when there are more of them", halfAnswersPurged},
		{"a trail tells of records, checks and dead letters", halfTrail},
		{"an answer that no row decides is kept", halfNoted},
		{"a database has one name", halfScope},
	}
}

// RunHalf checks every rule, each on a database that open makes and t cleans up.
func RunHalf(t *testing.T, open func(t testing.TB) HalfStore) {
	for _, c := range HalfCases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Run(t, open(t))
		})
	}
}

// halves is a ledger under test.
type halves struct {
	testing.TB
	HalfStore
	ctx context.Context
}

func newHalves(t testing.TB, s HalfStore) *halves {
	return &halves{TB: t, HalfStore: s, ctx: context.Background()}
}

// halfRecord is that of one event.
func halfRecord(id string) txmsg.Record {
	at := time.Date(2026, 3, 1, 10, 0, 0, 5000, time.UTC)
	return txmsg.Record{ID: id, Handle: txmsg.Handle("at " + id), SweepAfter: time.Minute, Event: &settle.Event{
		ID: "e-" + id, Type: "order.created", AggregateType: "order", AggregateID: "o-" + id, BizKey: "B-" + id, TraceID: "t-" + id, CausationID: "c",
		OccurredAt: at, AppendedAt: at, Version: 2, ContentType: settle.ContentTypeJSON, Payload: []byte(`{"total":1.10}`), Topic: "orders",
		Headers: map[string]string{"team": "sales"},
	}}
}

func halfInquiry(id string) txmsg.Inquiry {
	e := halfRecord(id).Event
	return txmsg.Inquiry{ID: id, EventID: e.ID, EventType: e.Type, Key: e.AggregateID, Topic: e.Topic, Times: 1, ByBroker: true, Owner: "p1"}
}

func (h *halves) commit(id string) {
	h.Helper()
	o, err := h.Transact(h.ctx, halfRecord(id), func(_ context.Context, write func(string) error) error { return write(id) })
	if o != txmsg.Committed || err != nil {
		h.Fatalf("Transact: %v, %v", o, err)
	}
}

func (h *halves) judge(id string, want txmsg.Verdict) {
	h.Helper()
	if v, err := h.Ledger.Judge(h.ctx, halfInquiry(id)); v != want || err != nil {
		h.Fatalf("Judge of %s: %s, %v; want %s", id, v, err, want)
	}
}

func (h *halves) due(want int) []txmsg.Open {
	h.Helper()
	open, err := h.Ledger.Due(h.ctx, 10, time.Minute)
	if err != nil || len(open) != want {
		h.Fatalf("Due: %+v, %v; want %d", open, err, want)
	}
	return open
}

func (h *halves) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// letters are the dead letters in a state.
func (h *halves) letters(state string, want int) []govern.DeadLetter {
	h.Helper()
	found, err := h.Governance.DeadLetters(h.ctx, govern.Filter{State: state})
	if err != nil || len(found) != want {
		h.Fatalf("dead letters in state %s: %+v, %v; want %d", state, found, err, want)
	}
	return found
}

func (h *halves) stages(id string) (stages []string, steps []govern.Step) {
	h.Helper()
	steps, err := h.Governance.Trail(h.ctx, id)
	if err != nil {
		h.Fatal(err)
	}
	for _, s := range steps {
		stages = append(stages, s.Stage)
	}
	return stages, steps
}

func halfWhole(t testing.TB, s HalfStore) {
	h := newHalves(t, s)
	h.commit("1")
	no := errors.New("no")
	if o, err := h.Transact(h.ctx, halfRecord("2"), func(_ context.Context, write func(string) error) error {
		h.must(write("2"))
		return no
	}); o != txmsg.RolledBack || !errors.Is(err, no) {
		t.Fatalf("Transact: %v, %v", o, err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a panic is swallowed")
			}
		}()
		_, _ = h.Transact(h.ctx, halfRecord("3"), func(_ context.Context, write func(string) error) error {
			h.must(write("3"))
			panic("no")
		})
	}()
	if n := h.Rows(); n != 1 {
		t.Errorf("there are %d rows, want 1", n)
	}
	h.judge("1", txmsg.Commit)
	h.judge("2", txmsg.Rollback)
	h.judge("3", txmsg.Rollback)
}

func halfJudged(t testing.TB, s HalfStore) {
	h := newHalves(t, s)
	h.commit("1")
	h.judge("1", txmsg.Commit)
	h.judge("1", txmsg.Commit)
	h.judge("2", txmsg.Rollback)
	for id, want := range map[string]int{"1": 2, "2": 1} {
		_, steps := h.stages("e-" + id)
		checked := 0
		for _, s := range steps {
			if s.Stage == govern.StageChecked {
				checked += s.Attempts
			}
		}
		if checked != want {
			t.Errorf("of %s %d checks are kept, want %d", id, checked, want)
		}
	}
}

func halfBarred(t testing.TB, s HalfStore) {
	h := newHalves(t, s)
	h.judge("1", txmsg.Rollback)
	if o, err := h.Transact(h.ctx, halfRecord("1"), func(_ context.Context, write func(string) error) error { return write("1") }); o != txmsg.RolledBack || err == nil {
		t.Errorf("Transact after a roll-back was answered: %v, %v", o, err)
	}
	if n := h.Rows(); n != 0 {
		t.Errorf("there are %d rows", n)
	}
	h.judge("1", txmsg.Rollback)
}

func halfOpen(t testing.TB, s HalfStore) {
	h := newHalves(t, s)
	o, err := h.Transact(h.ctx, halfRecord("1"), func(_ context.Context, write func(string) error) error {
		h.judge("1", txmsg.Unknown)
		return write("1")
	})
	if o != txmsg.Committed || err != nil {
		t.Fatalf("Transact: %v, %v", o, err)
	}
	h.judge("1", txmsg.Commit)
}

func halfDue(t testing.TB, s HalfStore) {
	h := newHalves(t, s)
	h.commit("1")
	h.due(0)
	h.Advance(2 * time.Minute)
	h.due(1)
	h.due(0)
	h.Advance(2 * time.Minute)
	h.due(1)
	h.must(h.Ledger.Mark(h.ctx, txmsg.Mark{ID: "1", Result: txmsg.ResultAgain, Tries: 3, Wait: 5 * time.Minute, Cause: "away"}))
	h.Advance(4 * time.Minute)
	h.due(0)
	h.Advance(2 * time.Minute)
	if o := h.due(1); o[0].Tries != 3 {
		t.Errorf("it was tried %d times, want 3", o[0].Tries)
	}
}

func halfConfirmed(t testing.TB, s HalfStore) {
	h := newHalves(t, s)
	h.commit("1")
	h.must(h.Ledger.Confirm(h.ctx, []string{"1", "unknown"}))
	h.Advance(time.Hour)
	h.due(0)
	h.must(h.Ledger.Mark(h.ctx, txmsg.Mark{ID: "1", Result: txmsg.ResultGivenUp, Class: settle.ClassPublish, Cause: "x"}))
	h.letters("any", 0)
	h.judge("1", txmsg.Commit)
	h.judge("2", txmsg.Rollback)
	h.must(h.Ledger.Confirm(h.ctx, []string{"2"}))
	h.judge("2", txmsg.Rollback)
}

func halfTells(t testing.TB, s HalfStore) {
	h := newHalves(t, s)
	h.commit("1")
	h.Advance(time.Hour)
	h.must(h.Ledger.Mark(h.ctx, txmsg.Mark{ID: "1", Result: txmsg.ResultMoved, Handle: "elsewhere"}))
	got, want := h.due(1)[0], halfRecord("1")
	g, w := got.Event, want.Event
	if got.ID != "1" || got.Handle != "elsewhere" || g.ID != w.ID || g.Type != w.Type || g.AggregateType != w.AggregateType || g.AggregateID != w.AggregateID ||
		g.BizKey != w.BizKey || g.TraceID != w.TraceID || g.CausationID != w.CausationID || g.Version != w.Version || g.ContentType != w.ContentType ||
		string(g.Payload) != string(w.Payload) || g.Topic != w.Topic || g.Headers["team"] != "sales" || !g.OccurredAt.Equal(w.OccurredAt) || !g.AppendedAt.Equal(w.AppendedAt) {
		t.Errorf("it comes back as %+v with %+v", got, g)
	}
}

func (h *halves) giveUp(id string) govern.DeadLetter {
	h.Helper()
	h.must(h.Ledger.Mark(h.ctx, txmsg.Mark{ID: id, Result: txmsg.ResultGivenUp, Tries: 10, Class: settle.ClassPublish, Cause: "topic is missing"}))
	return h.letters(govern.StateOpen, 1)[0]
}

var halfAct = govern.Act{By: "ann", Reason: "the topic is there now"}

func halfReplayed(t testing.TB, s HalfStore) {
	h := newHalves(t, s)
	h.commit("1")
	d := h.giveUp("1")
	if d.EventID != "e-1" || d.Key != "o-1" || d.Transaction != "1" || d.Attempts != 10 || d.Topic != "orders" || d.Behind != 0 || d.Foreign {
		t.Errorf("the dead letter is %+v", d)
	}
	shown, err := h.Governance.DeadLetter(h.ctx, d.ID)
	if err != nil || string(shown.Payload) != `{"total":1.10}` || len(shown.Raw) == 0 || shown.Headers["team"] != "sales" {
		t.Errorf("it shows %+v, %v", shown, err)
	}
	h.Advance(time.Hour)
	h.due(0)
	h.judge("1", txmsg.Commit)
	if o, err := h.Governance.Compensate(h.ctx, halfAct, d.ID); err != nil || o[0].Result != "refused" {
		t.Errorf("Compensate: %+v, %v", o, err)
	}
	if o, err := h.Governance.Replay(h.ctx, halfAct, govern.ReplayOptions{}, d.ID); err != nil || o[0].Result != "done" {
		t.Fatalf("Replay: %+v, %v", o, err)
	}
	h.letters(govern.StateReplaying, 1)
	if o := h.due(1); o[0].Tries != 0 {
		t.Errorf("it is replayed as its try %d", o[0].Tries)
	}
	h.must(h.Ledger.Confirm(h.ctx, []string{"1"}))
	if d := h.letters(govern.StateReplayed, 1)[0]; d.ClosedBy != "ann" || d.ClosedAt == nil {
		t.Errorf("the dead letter is %+v", d)
	}
}

func halfGivenUpAgain(t testing.TB, s HalfStore) {
	h := newHalves(t, s)
	h.commit("1")
	d := h.giveUp("1")
	if _, err := h.Governance.Replay(h.ctx, halfAct, govern.ReplayOptions{}, d.ID); err != nil {
		t.Fatal(err)
	}
	if again := h.giveUp("1"); again.ID != d.ID {
		t.Errorf("it is another dead letter: %d and %d", d.ID, again.ID)
	}
}

func halfDiscarded(t testing.TB, s HalfStore) {
	h := newHalves(t, s)
	h.commit("1")
	if o, err := h.Governance.Discard(h.ctx, halfAct, h.giveUp("1").ID); err != nil || o[0].Result != "done" {
		t.Fatalf("Discard: %+v, %v", o, err)
	}
	h.Advance(time.Hour)
	h.due(0)
	h.judge("1", txmsg.Rollback)
	h.must(h.Ledger.Confirm(h.ctx, []string{"1"}))
	h.letters(govern.StateDiscarded, 1)
}

func halfTrail(t testing.TB, s HalfStore) {
	h := newHalves(t, s)
	h.commit("1")
	h.judge("1", txmsg.Commit)
	h.Advance(time.Second)
	h.must(h.Ledger.Confirm(h.ctx, []string{"1"}))
	for _, by := range []string{"e-1", "o-1", "B-1", "t-1"} {
		if stages, steps := h.stages(by); len(stages) != 4 || stages[0] != govern.StageHalf || stages[3] != govern.StageConfirmed || steps[0].Key != "o-1" {
			t.Errorf("the trail of %s is %v", by, stages)
		}
	}
	q := halfInquiry("2")
	q.ByBroker, q.Cause = false, "out of stock"
	if _, err := h.Ledger.Judge(h.ctx, q); err != nil {
		t.Fatal(err)
	}
	if stages, steps := h.stages("o-2"); len(stages) != 1 || stages[0] != govern.StageRolledBack || steps[0].Note != "transaction 2: out of stock" {
		t.Errorf("the trail of what was rolled back is %+v", steps)
	}
	h.commit("3")
	d := h.giveUp("3")
	if _, err := h.Governance.Replay(h.ctx, halfAct, govern.ReplayOptions{}, d.ID); err != nil {
		t.Fatal(err)
	}
	stages, _ := h.stages("o-3")
	want := map[string]bool{govern.StageHalf: true, govern.StageCommitted: true, govern.StageDead: true, govern.StageReplay: true}
	for _, s := range stages {
		delete(want, s)
	}
	if len(want) > 0 {
		t.Errorf("the trail of what was given up is %v, without %v", stages, want)
	}
}

func halfNoted(t testing.TB, s HalfStore) {
	h := newHalves(t, s)
	q := halfInquiry("1")
	q.Cause, q.Times = "no route", 1<<40 // as a foreign message may say
	h.must(h.Ledger.Note(h.ctx, []txmsg.Answered{{Inquiry: q, Verdict: txmsg.Unknown, At: time.Now()}}))
	if stages, _ := h.stages("e-1"); len(stages) != 2 || stages[0] != govern.StageHalf || stages[1] != govern.StageChecked {
		t.Errorf("the trail is %v", stages)
	}
	h.judge("1", txmsg.Rollback)
}

func halfScope(t testing.TB, s HalfStore) {
	h := newHalves(t, s)
	first, err := h.Ledger.Scope(h.ctx)
	h.must(err)
	second, again := h.Ledger.Scope(h.ctx)
	if h.must(again); first == "" || first != second || len(first) > 40 {
		t.Errorf("it is named %q and %q", first, second)
	}
}
