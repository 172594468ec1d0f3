package storetest

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
)

func compensateCases[Tx any]() []InboxCase[Tx] {
	return []InboxCase[Tx]{
		{"a compensation takes effect once, before what waits behind it, and says by whom and why", compensateOnce[Tx]},
		{"what a compensation finds that it needs not do is recorded, and ends the event too", compensateMovedOn[Tx]},
		{"a compensation that fails opens the same dead letter anew, to be replayed or compensated", compensateFails[Tx]},
		{"an event that died is not compensated unasked, nor handled against a person's wish", compensateWish[Tx]},
		{"of two people of whom one replays and one compensates a dead letter one is refused", replayOrCompensate[Tx]},
		{"a compensation needs a name and a reason, a record that can be understood and an open dead letter", compensateRefused[Tx]},
		{"what was compensated has no effect that an effect key would hold", compensateEffectKey[Tx]},
		{"a failed compensation of an event beyond the dedup window makes no replay of it harmless", compensateBeyondWindow[Tx]},
		{"a compensated event keeps its place in the sequence", compensateSequence[Tx]},
	}
}

// compensating gives up on dead letters.
func (g *group[Tx]) compensating(letters ...govern.DeadLetter) {
	g.Helper()
	var of []int64
	want := make([]string, len(letters))
	for i, l := range letters {
		of, want[i] = append(of, l.ID), "done"
	}
	got, err := g.Governance.Compensate(g.ctx, ann, of...)
	g.act(got, err, want...)
}

// dueTo returns what is due, which must be these events with this wish.
func (g *group[Tx]) dueTo(compensate bool, want ...string) []settle.Item {
	g.Helper()
	due := g.due(want...)
	for _, it := range due {
		if it.Compensate != compensate {
			g.Fatalf("event %s is due with Compensate %v, want %v", it.Record.Event.ID, it.Compensate, compensate)
		}
	}
	return due
}

// steps returns stage and note of each step of an event's trail.
func (g *group[Tx]) steps(id string) []string {
	g.Helper()
	steps, err := g.Governance.Trail(g.ctx, id)
	if err != nil {
		g.Fatalf("Trail: %v", err)
	}
	out := []string{}
	for _, s := range steps {
		out = append(out, s.Stage+" "+s.Note)
	}
	return out
}

func compensateOnce[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	letters := g.die(on("a", "1"))
	g.apply(batch(on("a", "2")), blocked)
	g.compensating(letters...)
	g.letters(govern.StateCompensating, "1")
	due := g.due("1", "2")
	if !due[0].Compensate || due[0].Attempt != 0 || due[1].Compensate {
		t.Fatalf("due are %+v; want the first to be compensated, from its first attempt, and the second to be handled", due)
	}
	g.apply(due, applied, applied)
	g.apply(due, duplicate, duplicate)
	g.apply(batch(on("a", "1")), duplicate)
	g.wantEffects("1", "2")
	if l := g.letters(govern.StateCompensated, "1"); l[0].ClosedBy != "ann" || l[0].ClosedAt == nil {
		t.Fatalf("the dead letter is %+v; want it closed by ann", l[0])
	}
	want := []string{"dead handler_error: no stock", "compensate stock was counted", "compensated by ann: stock was counted"}
	if got := g.steps("1"); !slices.Equal(got, want) {
		t.Fatalf("the trail is %q, want %q", got, want)
	}
	wantAudit(g, "dlq.compensate inventory:1")
	if err := govern.VerifyChain(g.ctx, s.Governance); err != nil {
		t.Fatalf("the audit chain does not hold: %v", err)
	}
}

func compensateMovedOn[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	g.compensating(g.die(on("a", "1"))...)
	g.fail["1"] = settle.Reject("moved on: it was shipped")
	g.apply(g.dueTo(true, "1"), rejected)
	g.apply(batch(on("a", "1"), on("a", "2")), duplicate, applied)
	g.letters(govern.StateCompensated, "1")
	if got := g.steps("1"); got[len(got)-1] != "compensated by ann: stock was counted; moved on: it was shipped" {
		t.Fatalf("the trail is %q; want it to end with what was found", got)
	}
}

func compensateFails[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	first := g.die(on("a", "1"))
	g.compensating(first...)
	g.fail["1"] = errors.New("provider is away")
	g.apply(g.dueTo(true, "1"), failed)
	g.wantEffects()
	again := g.die(g.dueTo(true, "1")...)
	if again[0].ID != first[0].ID || again[0].ClosedAt != nil {
		t.Fatalf("the dead letter is %+v; want number %d open", again[0], first[0].ID)
	}
	// The compensation may be carried out yet, by whoever did not answer.
	got, err := s.Governance.Replay(g.ctx, ann, govern.ReplayOptions{}, first[0].ID)
	g.act(got, err, "refused")
	got, err = s.Governance.Replay(g.ctx, ann, govern.ReplayOptions{AcceptPossibleDuplicate: true}, first[0].ID)
	g.act(got, err, "done")
	again = g.die(g.dueTo(false, "1")...)
	g.compensating(again...)
	delete(g.fail, "1")
	g.apply(g.dueTo(true, "1"), applied)
	g.letters(govern.StateCompensated, "1")
	g.wantEffects("1")
}

func compensateWish[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	letters := g.die(on("a", "1"))
	got, err := s.Governance.Replay(g.ctx, ann, govern.ReplayOptions{}, letters[0].ID)
	g.act(got, err, "done")
	slow := g.dueTo(false, "1") // somebody looks, and is slow
	g.compensating(g.die(g.due("1")...)...)
	g.apply(slow, stored)
	slow[0].Intent, slow[0].Class, slow[0].Cause = settle.IntentDie, settle.ClassHandler, "no stock"
	g.apply(slow, stored)
	g.letters(govern.StateCompensating, "1")
	g.wantEffects()
	g.apply(g.dueTo(true, "1"), applied)
}

func replayOrCompensate[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	id := g.die(on("a", "1"))[0].ID
	var mu sync.Mutex
	outcome := map[string]string{}
	act := func(who string, f func() ([]govern.Outcome, error)) {
		got, err := f()
		mu.Lock()
		defer mu.Unlock()
		if err != nil || len(got) != 1 {
			g.Errorf("%s gets %v, %v", who, got, err)
			return
		}
		outcome[who] = got[0].Result
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		act("ann", func() ([]govern.Outcome, error) { return s.Governance.Compensate(g.ctx, ann, id) })
	})
	wg.Go(func() {
		act("bob", func() ([]govern.Outcome, error) {
			return s.Governance.Replay(g.ctx, govern.Act{By: "bob"}, govern.ReplayOptions{}, id)
		})
	})
	wg.Wait()
	if (outcome["ann"] == "done") == (outcome["bob"] == "done") {
		t.Fatalf("outcomes are %v, want one done and one refused", outcome)
	}
	g.dueTo(outcome["ann"] == "done", "1")
}

func compensateRefused[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	cut := settle.Item{Intent: settle.IntentDie, Class: settle.ClassDecode, Cause: "cut", Record: settle.Record{
		DecodeErr: errors.New("cut"), Raw: []byte("{"), Position: 9, At: settle.Coordinates{Topic: "t", Offset: 9},
	}}
	g.apply(batch(cut), dead)
	undecodable, err := s.Governance.DeadLetters(g.ctx, govern.Filter{Class: settle.ClassDecode})
	if err != nil || len(undecodable) != 1 {
		t.Fatalf("DeadLetters gives %+v, %v; want one", undecodable, err)
	}
	it := on("a", "1")
	it.Intent, it.Class, it.Cause = settle.IntentDie, settle.ClassHandler, "no stock"
	g.apply(batch(it), dead)
	letters, err := s.Governance.DeadLetters(g.ctx, govern.Filter{Key: "1"})
	if err != nil || len(letters) != 1 {
		t.Fatalf("DeadLetters gives %+v, %v; want one", letters, err)
	}
	id := letters[0].ID
	for _, a := range []govern.Act{{By: "ann"}, {Reason: "no use"}} {
		if _, err := s.Governance.Compensate(g.ctx, a, id); err == nil {
			t.Fatalf("a compensation with %+v is taken", a)
		}
	}
	got, err := s.Governance.Compensate(g.ctx, ann, undecodable[0].ID, 4711, id, id)
	g.act(got, err, "refused", "refused", "done", "refused")
	contains(t, got[0].Why, "discard")
	contains(t, got[3].Why, govern.StateCompensating)
	wantAudit(g, "dlq.compensate inventory:1")
}

func compensateEffectKey[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	keyed := func(it settle.Item) settle.Item {
		it.EffectKey = "k"
		return it
	}
	g.compensating(g.die(keyed(on("a", "1")))...)
	due := g.dueTo(true, "1")
	g.apply(batch(keyed(due[0]), keyed(on("b", "2"))), applied, applied)
	g.apply(batch(keyed(on("c", "3"))), duplicate)
	g.wantEffects("1", "2")
}

func compensateBeyondWindow[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	forget(g, time.Hour)
	g.apply(batch(appended("a", "1", 2*time.Hour)), beyondWindow)
	letters := g.letters(govern.StateOpen, "1")
	g.compensating(letters...)
	g.die(g.dueTo(true, "1")...)
	got, err := s.Governance.Replay(g.ctx, ann, govern.ReplayOptions{}, letters[0].ID)
	g.act(got, err, "refused")
	g.compensating(letters...)
	g.apply(g.dueTo(true, "1"), applied)
}

func compensateSequence[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	g.work.OrderedBySeq = true
	g.apply(batch(seq("a", 1)), applied)
	letters := g.die(seq("a", 2))
	g.apply(batch(seq("a", 3)), blocked)
	g.compensating(letters...)
	g.apply(g.due("a-2", "a-3"), applied, applied)
	g.apply(batch(seq("a", 4)), applied)
	g.wantEffects("a-1", "a-2", "a-3", "a-4")
}
