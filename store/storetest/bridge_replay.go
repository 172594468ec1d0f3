package storetest

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/govern"
)

func replayedForeign(t testing.TB, s BridgeStore) {
	b := newBridging(t, s)
	first, second := b.one("a", "1"), b.one("b", "2")
	b.orders()
	for _, id := range []int64{second, first} {
		b.replay("done", govern.ReplayOptions{}, id)
		b.replay("refused", govern.ReplayOptions{}, id)
	}
	got := b.orders(first, second)
	again := b.orders(first, second)
	if got[0].Return.ID == "" || got[0].Return.ID != again[0].Return.ID || got[0].Return.ID == got[1].Return.ID || got[0].Return.To != govern.ToGroup || got[0].Tries != 0 {
		t.Fatalf("orders are %+v, then %+v", got, again)
	}
	if o, err := s.Bridge.Ordered(b.ctx, "stock", 1); err != nil || len(o.Orders) != 1 {
		t.Fatalf("of 1 at most there are %d, %v", len(o.Orders), err)
	}
	b.mark(bridge.Mark{ID: first, Result: bridge.ResultReturned, Tries: 1})
	b.mark(bridge.Mark{ID: first, Result: bridge.ResultGivenUp, Tries: 1, Cause: "too late"})
	b.orders(second)
	d := b.show(first, govern.StateReplayed)
	if d.ClosedBy != "ann" || d.ClosedAt == nil || d.Bridged.Target != govern.ToGroup || d.Bridged.Refused != "" {
		t.Fatalf("closed it is %+v, %+v", d, d.Bridged)
	}
	b.replay("refused", govern.ReplayOptions{}, first)
}

func putOffOrGivenUp(t testing.TB, s BridgeStore) {
	b := newBridging(t, s)
	id := b.one("a", "1")
	b.replay("done", govern.ReplayOptions{}, id)
	o, err := s.Bridge.Ordered(b.ctx, "stock", 10)
	if err != nil || o.Next.IsZero() {
		t.Fatalf("Ordered: %+v, %v", o, err)
	}
	returnID, later := o.Orders[0].Return.ID, o.Next.Add(time.Minute)
	b.mark(bridge.Mark{ID: id, Result: bridge.ResultAgain, Tries: 1, NextAt: later, Cause: "no answer"})
	b.orders()
	if o, err := s.Bridge.Ordered(b.ctx, "stock", 10); err != nil || !o.Next.Equal(later) {
		t.Fatalf("the next is due at %s, %v; want %s", o.Next, err, later)
	}
	if d := b.show(id, govern.StateReplaying); d.Bridged.Tries != 1 || d.Bridged.Refused != "no answer" {
		t.Fatalf("put off it says %+v", d.Bridged)
	}
	s.Advance(2 * time.Minute)
	if got := b.orders(id)[0]; got.Tries != 1 || got.Return.ID != returnID {
		t.Fatalf("after it was put off the order is %+v", got)
	}
	b.lease = b.lead("stock", "first")
	b.mark(bridge.Mark{ID: id, Result: bridge.ResultGivenUp, Tries: 2, Cause: "the queue is gone"})
	b.orders()
	if d := b.show(id, govern.StateOpen); d.Bridged.Refused != "the queue is gone" || d.ClosedAt != nil {
		t.Fatalf("given up it says %+v", d.Bridged)
	}
	b.replay("done", govern.ReplayOptions{To: govern.ToOrigin}, id)
	if got := b.orders(id)[0]; got.Tries != 0 || got.Return.ID != returnID || got.Return.To != govern.ToOrigin {
		t.Fatalf("ordered again it is %+v; the id must be the one that the broker may have", got)
	}
	if d := b.show(id, govern.StateReplaying); d.Bridged.Refused != "" {
		t.Fatalf("ordered again it says %q", d.Bridged.Refused)
	}
}

func replayTargets(t testing.TB, s BridgeStore) {
	b := newBridging(t, s)
	for i, c := range []struct {
		to    []bridge.Target
		asked govern.Target
		want  govern.Target // empty: refused
	}{
		{[]bridge.Target{govern.ToGroup, govern.ToOrigin}, "", govern.ToGroup},
		{[]bridge.Target{govern.ToGroup, govern.ToOrigin}, govern.ToOrigin, govern.ToOrigin},
		{[]bridge.Target{govern.ToOrigin}, "", ""},
		{[]bridge.Target{govern.ToOrigin}, govern.ToGroup, ""},
		{[]bridge.Target{govern.ToGroup}, govern.ToOrigin, ""},
		{nil, "", ""},
		{[]bridge.Target{govern.ToGroup}, "moon", ""},
	} {
		l := letter(strconv.Itoa(i), strconv.Itoa(i))
		l.To = c.to
		b.keep(1, l)
		found := b.all()
		id := found[len(found)-1].ID
		if c.want == "" {
			if o := b.replay("refused", govern.ReplayOptions{To: c.asked}, id); o.Why == "" {
				t.Errorf("case %d is refused without a reason", i)
			}
			b.show(id, govern.StateOpen)
			continue
		}
		b.replay("done", govern.ReplayOptions{To: c.asked}, id)
		if got := b.orders(id)[0].Return.To; got != c.want {
			t.Errorf("case %d goes to %q, want %q", i, got, c.want)
		}
		b.mark(bridge.Mark{ID: id, Result: bridge.ResultReturned})
	}
}

func undecodableForeign(t testing.TB, s BridgeStore) {
	b := newBridging(t, s)
	l := letter("a", "1")
	l.Record.Event, l.Record.DecodeErr, l.Class = nil, errors.New("not an event envelope"), settle.ClassDecode
	l.Exception, l.Message = "", ""
	b.keep(1, l)
	d := b.show(b.all()[0].ID, govern.StateOpen)
	if d.EventID != "a" || d.Key != "o-1" || d.Reason != "not an event envelope" || d.Class != settle.ClassDecode {
		t.Fatalf("it is kept as %+v", d)
	}
	b.replay("done", govern.ReplayOptions{}, d.ID)
	b.orders(d.ID)
}

func discardForeign(t testing.TB, s BridgeStore) {
	b := newBridging(t, s)
	id := b.one("a", "1")
	if _, err := s.Governance.Discard(b.ctx, govern.Act{By: "ann"}, id); err == nil {
		t.Fatal("a discard without a reason passes")
	}
	out, err := s.Governance.Discard(b.ctx, ann, id)
	if err != nil || out[0].Result != "done" {
		t.Fatalf("Discard gives %+v, %v", out, err)
	}
	b.replay("refused", govern.ReplayOptions{}, id)
	b.orders()
	if d := b.show(id, govern.StateDiscarded); d.ClosedBy != "ann" || d.ClosedAt == nil {
		t.Fatalf("discarded it is %+v", d)
	}
	b.keep(0, letter("a", "1"))
	b.show(id, govern.StateDiscarded)
}

func compensateForeign(t testing.TB, s BridgeStore) {
	b := newBridging(t, s)
	id := b.one("a", "1")
	out, err := s.Governance.Compensate(b.ctx, ann, id)
	if err != nil || out[0].Result != "refused" || out[0].Why == "" {
		t.Fatalf("Compensate gives %+v, %v", out, err)
	}
	b.show(id, govern.StateOpen)
}

func diesAgainForeign(t testing.TB, s BridgeStore) {
	b := newBridging(t, s)
	first := b.one("a", "1")
	b.replay("done", govern.ReplayOptions{}, first)
	returned := b.orders(first)[0].Return.ID
	// It may die again before the bridge has noted that it went back.
	second := letter("b", "1")
	second.ReturnID = returned
	b.keep(1, second)
	b.mark(bridge.Mark{ID: first, Result: bridge.ResultReturned})
	found := b.all()
	if d := b.show(found[1].ID, govern.StateOpen); d.Bridged.Before != first {
		t.Fatalf("the second letter names %d, want %d", d.Bridged.Before, first)
	}
	b.keep(1, letter("c", "1"), second)
	if d := b.show(b.all()[2].ID, govern.StateOpen); d.Bridged.Before != first {
		t.Fatalf("a letter without a return id names %d, want the one that was replayed: %d", d.Bridged.Before, first)
	}
	other := letter("d", "2")
	b.keep(1, other)
	if d := b.show(b.all()[3].ID, govern.StateOpen); d.Bridged.Before != 0 {
		t.Fatalf("the letter of another event names %d", d.Bridged.Before)
	}
}

func trailForeign(t testing.TB, s BridgeStore) {
	b := newBridging(t, s)
	first := b.one("a", "1")
	b.replay("done", govern.ReplayOptions{}, first)
	b.mark(bridge.Mark{ID: first, Result: bridge.ResultReturned})
	second := b.one("b", "1")
	if out, err := s.Governance.Discard(b.ctx, ann, second); err != nil || out[0].Result != "done" {
		t.Fatalf("Discard gives %+v, %v", out, err)
	}
	for _, id := range []string{"1", "o-1", "B-1", "t-1"} {
		steps, err := s.Governance.Trail(b.ctx, id)
		if err != nil {
			t.Fatalf("Trail: %v", err)
		}
		count := map[string]int{}
		for _, step := range steps {
			if count[step.Stage]++; step.Group != "stock" || step.EventID != "1" {
				t.Fatalf("step %+v is not the group's", step)
			}
			if step.Stage == govern.StageDead && (!step.At.Equal(letter("a", "1").DiedAt) || !strings.Contains(step.Note, "stock (not ours), bridged at 20")) {
				t.Fatalf("step %+v does not say when and where it died", step)
			}
		}
		if count[govern.StageDead] != 2 || count[govern.StageReplay] != 1 || count[govern.StageDiscarded] != 1 || len(steps) != 4 {
			t.Fatalf("the trail of %s has %v", id, count)
		}
	}
	if err := govern.VerifyChain(b.ctx, s.Governance); err != nil {
		t.Fatal(err)
	}
}

func foundForeign(t testing.TB, s BridgeStore) {
	b := newBridging(t, s)
	b.keep(2, letter("a", "1"), letter("b", "2"))
	for name, f := range map[string]govern.Filter{
		"group": {Group: "stock", Key: "2"}, "event": {Key: "2"}, "key": {Key: "o-2"}, "business key": {Key: "B-2"}, "trace": {Key: "t-2"},
		"type": {EventType: "order.created", Key: "2"}, "class": {Class: settle.ClassHandler, Key: "2"}, "ids": {IDs: []int64{b.all()[1].ID}},
	} {
		found, err := s.Governance.DeadLetters(b.ctx, f)
		if err != nil || len(found) != 1 || found[0].EventID != "2" || !found[0].Foreign {
			t.Errorf("by %s there are %+v, %v", name, found, err)
		}
	}
	if found, err := s.Governance.DeadLetters(b.ctx, govern.Filter{Group: "mail"}); err != nil || len(found) != 0 {
		t.Errorf("of another group there are %+v, %v", found, err)
	}
}
