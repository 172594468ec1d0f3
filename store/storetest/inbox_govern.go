package storetest

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
)

func governCases[Tx any]() []InboxCase[Tx] {
	return slices.Concat(letterCases[Tx](), actCases[Tx]())
}

func letterCases[Tx any]() []InboxCase[Tx] {
	return []InboxCase[Tx]{
		{"a replay takes effect once, before what waits behind it, and says who asked", replayOnce[Tx]},
		{"a replay that fails again opens the same dead letter anew", replayFailsAgain[Tx]},
		{"of two people who replay one dead letter one is refused", twoPeopleReplay[Tx]},
		{"each id of a replay has its own outcome", outcomePerID[Tx]},
		{"a discard without a reason, or by nobody, is refused", discardNeedsReason[Tx]},
		{"what was discarded can't be replayed", discardedStays[Tx]},
		{"a record that can't be understood is kept as found and can only be discarded", undecodableKept[Tx]},
		{"dead letters are found by state, group, type, class, key and id", lettersFound[Tx]},
	}
}

func actCases[Tx any]() []InboxCase[Tx] {
	return []InboxCase[Tx]{
		{"every act is in the audit chain, in order, and an edit of it is found", auditChain[Tx]},
		{"a pause is seen by every process until it is resumed, and is audited once", pauseSeen[Tx]},
		{"a group and a topic are known by what was done for them", namesKnown[Tx]},
		{"what can't be paused or skipped is refused and not audited", refusedNotAudited[Tx]},
		{"a trail tells cause, repair and effect, by event, key and trace", trailTells[Tx]},
	}
}

// wantAudit checks what was done, to what, and that each entry names who.
func wantAudit[Tx any](g *group[Tx], want ...string) {
	g.Helper()
	entries, err := g.Governance.Audit(g.ctx, 0, 100)
	if err != nil {
		g.Fatalf("Audit: %v", err)
	}
	got := []string{}
	for _, e := range entries {
		got = append(got, e.Action+" "+e.Target)
		if e.Actor != "ann" || e.Reason == "" {
			g.Fatalf("entry %+v does not say who and why", e)
		}
	}
	if !slices.Equal(got, append([]string{}, want...)) {
		g.Fatalf("audited are %v, want %v", got, want)
	}
}

func replayOnce[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	letters := g.die(on("a", "1"))
	g.apply(batch(on("a", "2")), blocked)
	got, err := s.Governance.Replay(g.ctx, ann, govern.ReplayOptions{}, letters[0].ID)
	g.act(got, err, "done")
	g.letters(govern.StateReplaying, "1")
	due := g.due("1", "2")
	if due[0].Attempt != 0 {
		t.Fatalf("a replayed event has %d attempts behind it, want none", due[0].Attempt)
	}
	g.apply(due, applied, applied)
	g.apply(batch(on("a", "1")), duplicate)
	g.wantEffects("1", "2")
	if l := g.letters(govern.StateReplayed, "1"); l[0].ClosedBy != "ann" || l[0].ClosedAt == nil {
		t.Fatalf("the dead letter is %+v; want it closed by ann", l[0])
	}
}

func replayFailsAgain[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	first := g.die(on("a", "1"))
	got, err := s.Governance.Replay(g.ctx, ann, govern.ReplayOptions{}, first[0].ID)
	g.act(got, err, "done")
	again := g.die(g.due("1")...)
	if again[0].ID != first[0].ID || again[0].ClosedAt != nil {
		t.Fatalf("the dead letter is %+v; want number %d open", again[0], first[0].ID)
	}
	got, err = s.Governance.Replay(g.ctx, ann, govern.ReplayOptions{}, first[0].ID)
	g.act(got, err, "done")
	g.apply(g.due("1"), applied)
}

func twoPeopleReplay[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	id := g.die(on("a", "1"))[0].ID
	var mu sync.Mutex
	var results []string
	var wg sync.WaitGroup
	for _, who := range []string{"ann", "bob"} {
		wg.Go(func() {
			got, err := s.Governance.Replay(g.ctx, govern.Act{By: who}, govern.ReplayOptions{}, id)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || len(got) != 1 {
				g.Errorf("Replay gives %v, %v", got, err)
				return
			}
			results = append(results, got[0].Result)
		})
	}
	wg.Wait()
	slices.Sort(results)
	if !slices.Equal(results, []string{"done", "refused"}) {
		t.Fatalf("outcomes are %v, want one done and one refused", results)
	}
	g.due("1")
}

func outcomePerID[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	letters := g.die(on("a", "1"), on("b", "2"))
	got, err := s.Governance.Replay(g.ctx, ann, govern.ReplayOptions{}, letters[1].ID, 4711, letters[0].ID)
	g.act(got, err, "done", "refused", "done")
	g.due("1", "2")
}

func discardNeedsReason[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	id := g.die(on("a", "1"))[0].ID
	for _, a := range []govern.Act{{By: "ann"}, {Reason: "no use"}} {
		if _, err := s.Governance.Discard(g.ctx, a, id); err == nil {
			t.Fatalf("a discard with %+v is done", a)
		}
	}
	g.letters(govern.StateOpen, "1")
}

func discardedStays[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	id := g.die(on("a", "1"))[0].ID
	got, err := s.Governance.Discard(g.ctx, ann, id)
	g.act(got, err, "done")
	got, err = s.Governance.Replay(g.ctx, ann, govern.ReplayOptions{}, id)
	g.act(got, err, "refused")
	if l := g.letters(govern.StateDiscarded, "1"); l[0].ClosedBy != "ann" || l[0].ClosedAt == nil {
		t.Fatalf("the dead letter is %+v; want it closed by ann", l[0])
	}
}

func undecodableKept[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	cut := settle.Item{Intent: settle.IntentDie, Class: settle.ClassDecode, Cause: "cut", Record: settle.Record{
		DecodeErr: errors.New("cut"), Raw: []byte("{\"eventId\":\xff"), Position: 9, At: settle.Coordinates{Topic: "t", Partition: 2, Offset: 9},
	}}
	g.apply(batch(cut, on("a", "1")), dead, applied)
	g.apply(batch(cut), stored)
	found, err := s.Governance.DeadLetters(g.ctx, govern.Filter{Class: settle.ClassDecode})
	if err != nil || len(found) != 1 {
		t.Fatalf("DeadLetters gives %+v, %v; want one", found, err)
	}
	d, err := s.Governance.DeadLetter(g.ctx, found[0].ID)
	if err != nil || string(d.Raw) != string(cut.Record.Raw) || d.Topic != "t" || d.Partition != 2 || d.Offset != 9 {
		t.Fatalf("DeadLetter gives %+v, %v; want the bytes and where they were found", d, err)
	}
	got, err := s.Governance.Replay(g.ctx, ann, govern.ReplayOptions{}, d.ID)
	g.act(got, err, "refused")
	got, err = s.Governance.Discard(g.ctx, ann, d.ID)
	g.act(got, err, "done")
}

func lettersFound[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	letters := g.die(on("a", "1"), on("b", "2"))
	for _, f := range []govern.Filter{
		{Key: "b"}, {Key: "2"}, {Key: "trace-b"}, {IDs: []int64{letters[1].ID}}, {After: letters[0].ID},
		{Key: "b", Group: "inventory", EventType: "order.created", Class: settle.ClassHandler, State: "any"},
	} {
		found, err := s.Governance.DeadLetters(g.ctx, f)
		if err != nil || len(found) != 1 || found[0].EventID != "2" || len(found[0].Raw) != 0 {
			t.Fatalf("filter %+v finds %+v, %v; want event 2 without its bytes", f, found, err)
		}
	}
	for _, f := range []govern.Filter{{Key: "c"}, {Group: "billing"}, {EventType: "x"}, {Class: settle.ClassPanic}, {State: govern.StateDiscarded}} {
		if found, err := s.Governance.DeadLetters(g.ctx, f); err != nil || len(found) != 0 {
			t.Fatalf("filter %+v finds %+v, %v; want none", f, found, err)
		}
	}
	if _, err := s.Governance.DeadLetter(g.ctx, 4711); !errors.Is(err, govern.ErrNotFound) {
		t.Fatalf("a dead letter that is not there gives %v, want %v", err, govern.ErrNotFound)
	}
}

func auditChain[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	letters := g.die(on("a", "1"), on("b", "2"))
	got, err := s.Governance.Replay(g.ctx, ann, govern.ReplayOptions{}, letters[0].ID)
	g.act(got, err, "done")
	got, err = s.Governance.Discard(g.ctx, ann, letters[0].ID, letters[1].ID)
	g.act(got, err, "refused", "done")
	if err := s.Governance.Pause(g.ctx, ann, "group", "inventory"); err != nil {
		t.Fatal(err)
	}
	wantAudit(g, "dlq.replay inventory:1", "dlq.discard inventory:2", "control.pause group:inventory")
	if err := govern.VerifyChain(g.ctx, s.Governance); err != nil {
		t.Fatalf("the chain does not hold: %v", err)
	}
	if err := s.Tamper(g.ctx, 2); err != nil {
		t.Fatal(err)
	}
	if err := govern.VerifyChain(g.ctx, s.Governance); err == nil {
		t.Fatal("an entry was edited and the chain still holds")
	}
}

func pauseSeen[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	before, err := s.Inbox.Controls(g.ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Governance.Pause(g.ctx, ann, "key", "inventory/a"); err != nil {
			t.Fatal(err)
		}
	}
	paused, err := s.Inbox.Controls(g.ctx)
	if err != nil || !paused.Paused("key", "inventory/a") || paused.Version == before.Version {
		t.Fatalf("Controls gives %+v, %v after %+v; want the pause and another version", paused, err, before)
	}
	if err := s.Governance.Resume(g.ctx, ann, "key", "inventory/a"); err != nil {
		t.Fatal(err)
	}
	after, err := s.Inbox.Controls(g.ctx)
	if err != nil || len(after.Rows) != 0 || after.Version == paused.Version {
		t.Fatalf("Controls gives %+v, %v; want no pause and another version than %d", after, err, paused.Version)
	}
	wantAudit(g, "control.pause key:inventory/a", "control.resume key:inventory/a")
	if err := s.Governance.Resume(g.ctx, ann, "key", "inventory/a"); !errors.Is(err, govern.ErrNotFound) {
		t.Fatalf("Resume of what is not paused gives %v, want %v", err, govern.ErrNotFound)
	}
}

func namesKnown[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	g.apply(batch(on("a", "1")), applied)
	claims, err := s.Inbox.Claim(g.ctx, settle.ClaimRequest{Group: "billing", Topic: "t", Owner: "x", Partitions: 1, TTL: time.Minute})
	if err != nil || len(claims) != 1 {
		t.Fatalf("Claim gives %v, %v", claims, err)
	}
	for name, want := range map[string]bool{
		"group inventory": true, "group billing": true, "group inventroy": false, "topic t": true, "topic tt": false, "key any": true, "relay ": true,
	} {
		kind, name, _ := strings.Cut(name, " ")
		known, err := s.Governance.Known(g.ctx, kind, name)
		if err != nil || known != want {
			t.Fatalf("Known says of %s %q %v, %v; want %v", kind, name, known, err, want)
		}
	}
}

func refusedNotAudited[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	if err := s.Governance.Pause(g.ctx, ann, "planet", "earth"); err == nil {
		t.Fatal("an unknown kind is paused")
	}
	if err := s.Governance.Pause(g.ctx, govern.Act{}, "group", "inventory"); err == nil {
		t.Fatal("nobody pauses a group")
	}
	if err := s.Governance.Skip(g.ctx, ann, "no-such-event"); !errors.Is(err, govern.ErrNotFound) {
		t.Fatalf("Skip of an unknown event gives %v, want %v", err, govern.ErrNotFound)
	}
	wantAudit(g)
}

func trailTells[Tx any](t testing.TB, s InboxStore[Tx]) {
	g := newGroup(t, s)
	id := g.die(on("a", "1"))[0].ID
	got, err := s.Governance.Replay(g.ctx, ann, govern.ReplayOptions{}, id)
	g.act(got, err, "done")
	g.apply(g.due("1"), applied)
	g.apply(batch(park(on("a", "2")), on("c", "3")), parked, applied)
	for _, by := range []string{"a", "trace-a"} {
		steps, err := s.Governance.Trail(g.ctx, by)
		if err != nil {
			t.Fatal(err)
		}
		stages := []string{}
		for _, step := range steps {
			stages = append(stages, step.EventID+" "+step.Stage)
		}
		if want := []string{"1 dead", "1 replay", "1 applied", "2 parked"}; !slices.Equal(stages, want) {
			t.Fatalf("the trail of %s is %v, want %v", by, stages, want)
		}
		contains(t, steps[0].Note, "no stock")
		if steps[1].By != "ann" || steps[1].EventType != "order.created" || steps[1].Key != "a" || steps[1].Note != ann.Reason || steps[2].Group != "inventory" || steps[3].NextAt == nil {
			t.Fatalf("the trail of %s is %+v; want who, why, which group, and when next", by, steps)
		}
	}
	if steps, err := s.Governance.Trail(g.ctx, "nobody"); err != nil || len(steps) != 0 {
		t.Fatalf("the trail of an unknown id is %v, %v; want nothing", steps, err)
	}
}
