package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/govern"
)

func fencedBridge(t testing.TB, s BridgeStore) {
	b := newBridging(t, s)
	id := b.one("a", "1")
	b.replay("done", govern.ReplayOptions{}, id)
	if other := b.lead("stock", "second"); other.Held {
		t.Fatal("two hold one lease")
	}
	s.Advance(bridgeTTL + time.Second)
	if second := b.lead("stock", "second"); !second.Held || second.Epoch <= b.lease.Epoch {
		t.Fatalf("the lease that has run out is not given under a higher epoch: %+v after %+v", second, b.lease)
	}
	for name, l := range map[string]bridge.Lease{"an old lease": b.lease, "none": {Group: "stock", Owner: "second"}, "another group's": b.lead("mail", "first")} {
		l.Group = "stock"
		if _, err := s.Bridge.Keep(b.ctx, l, []bridge.Letter{letter("b", "2")}); !errors.Is(err, settle.ErrFenced) {
			t.Errorf("Keep with %s: %v", name, err)
		}
		if err := s.Bridge.Mark(b.ctx, l, []bridge.Mark{{ID: id}}); !errors.Is(err, settle.ErrFenced) {
			t.Errorf("Mark with %s: %v", name, err)
		}
	}
	if found := b.all(); len(found) != 1 || found[0].State != govern.StateReplaying {
		t.Fatalf("the dead letters are %+v", found)
	}
}

func leaseOfBridge(t testing.TB, s BridgeStore) {
	b := newBridging(t, s)
	s.Advance(bridgeTTL * 2 / 3)
	if again := b.lead("stock", "first"); !again.Held || again.Epoch != b.lease.Epoch {
		t.Fatalf("renewed it is %+v, was %+v", again, b.lease)
	}
	s.Advance(bridgeTTL * 2 / 3)
	if b.lead("stock", "second").Held {
		t.Fatal("a renewed lease is given to another")
	}
	if err := s.Bridge.Resign(b.ctx, b.lease); err != nil {
		t.Fatalf("Resign: %v", err)
	}
	if err := s.Bridge.Resign(b.ctx, b.lease); !errors.Is(err, settle.ErrFenced) {
		t.Fatalf("a lease is given back twice: %v", err)
	}
	second := b.lead("stock", "second")
	if !second.Held || second.Epoch <= b.lease.Epoch {
		t.Fatalf("given back it goes to another as %+v, was %+v", second, b.lease)
	}
	for _, wrong := range [][2]string{{"", "x"}, {"stock", ""}} {
		if _, err := s.Bridge.Lead(b.ctx, wrong[0], wrong[1], bridgeTTL); err == nil {
			t.Errorf("%q leads %q", wrong[1], wrong[0])
		}
	}
}

func leaseLeapt(t testing.TB, s BridgeStore) {
	b := newBridging(t, s)
	s.Advance(-time.Hour)
	if second := b.lead("stock", "second"); !second.Held || second.Epoch <= b.lease.Epoch {
		t.Fatalf("the lease lasts an hour longer than it was given for: %+v", second)
	}
}

func groupsApart(t testing.TB, s BridgeStore) {
	b := newBridging(t, s)
	b.one("a", "1")
	mail := b.lead("mail", "second")
	if !mail.Held {
		t.Fatal("one group's lease holds another's up")
	}
	other := letter("a", "1")
	other.Group = "mail"
	if fresh, err := s.Bridge.Keep(b.ctx, mail, []bridge.Letter{other}); err != nil || fresh != 1 {
		t.Fatalf("Keep: %d, %v", fresh, err)
	}
	found := b.all()
	b.replay("done", govern.ReplayOptions{}, found[1].ID)
	b.orders()
	if o, err := s.Bridge.Ordered(b.ctx, "mail", 10); err != nil || len(o.Orders) != 1 || o.Orders[0].Return.Letter.Group != "mail" {
		t.Fatalf("ordered of the other group is %+v, %v", o, err)
	}
}
