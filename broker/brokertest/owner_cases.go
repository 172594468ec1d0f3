package brokertest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

var ownerCases = []testCase{
	{name: "what a member had in hand when it died is delivered to another", groups: []string{"mortal"}, test: deadMember},
	{name: "a member whose partition was taken gets nothing more of it", leased: true, test: takenPartition},
	{name: "a member that can't renew stops before its lease ends", leased: true, test: notRenewed},
	{name: "a floor of another life of the topic stops the subscription", leased: true, test: otherLife},
	{name: "a topic that was made anew stops its groups", leased: true, needs: AbilityRecreate, test: madeAnew},
	{name: "the floor of an idle partition rises, and loses nothing", leased: true, counted: true, test: idleFloor},
}

func deadMember(t testing.TB, h Harness) {
	batch := messages(h, "k", 60, 20)
	publish(t, h, h.Broker, batch)
	g := newGroupWithLease(t, h, "mortal", leaseTime/4)
	var inHand atomic.Int64
	dying := g.join(joining{name: "dying", hook: func(ctx context.Context, _ settle.Partition, records []settle.Record) error {
		inHand.Add(int64(len(records)))
		g.mu.Lock()
		g.touch()
		g.mu.Unlock()
		<-ctx.Done()
		return ctx.Err()
	}})
	g.await("a delivery", func() bool { return inHand.Load() > 0 })
	if err := dying.stop(); err != nil {
		t.Errorf("Subscribe: %v", err)
	}
	g.join(joining{name: "heir", broker: again(t, h)})
	g.awaitAll(batch)
}

func takenPartition(t testing.TB, h Harness) {
	first := message(h, "k", 1)
	n := publish(t, h, h.Broker, []settle.Message{first})[0].At.Partition
	g := newGroup(t, h, "robbed")
	var late atomic.Int64
	var stolen atomic.Bool
	g.join(joining{hook: func(_ context.Context, p settle.Partition, _ []settle.Record) error {
		if stolen.Load() && p.Number == n {
			late.Add(1)
		}
		return nil
	}})
	g.awaitAll([]settle.Message{first})
	g.steal(n)
	for range 2 { // by the second claim the member has acted on the first
		told := time.Now()
		g.await("the member to be told", func() bool {
			g.mu.Lock()
			defer g.mu.Unlock()
			return g.seen["member"].After(told)
		})
	}
	stolen.Store(true)
	publish(t, h, h.Broker, []settle.Message{message(h, "k", 2)})
	rest := messages(h, "other", 30, 30)
	publish(t, h, h.Broker, rest)
	g.await("the other partitions", func() bool {
		have := g.times()
		for _, m := range rest {
			if have[m.Event.ID] == 0 && settle.PartitionOf(m.Event.Key(), len(g.leases)) != n {
				return false
			}
		}
		return true
	})
	if late.Load() > 0 {
		t.Errorf("%d deliveries of a partition that somebody else owns", late.Load())
	}
}

func notRenewed(t testing.TB, h Harness) {
	ttl := leaseTime / 4
	g := newGroupWithLease(t, h, "cut-off", ttl)
	first := messages(h, "k", 30, 30)
	publish(t, h, h.Broker, first)
	m := g.join(joining{})
	g.awaitAll(first)
	g.setRefuse(true)
	time.Sleep(ttl + ttl/4) // the lease has to end by the clock
	before := m.deliveries.Load()
	publish(t, h, h.Broker, messages(h, "later", 30, 30))
	time.Sleep(ttl / 4)
	if n := m.deliveries.Load() - before; n > 0 {
		t.Errorf("%d deliveries after the lease had ended", n)
	}
	g.setRefuse(false)
	g.awaitAll(messages(h, "later", 30, 30))
}

func otherLife(t testing.TB, h Harness) {
	var batch []settle.Message
	for i := range 10 {
		batch = append(batch, message(h, "k", i+1))
	}
	receipts := publish(t, h, h.Broker, batch)
	n := receipts[0].At.Partition
	known := newGroup(t, h, "known")
	m := known.join(joining{})
	known.awaitAll(batch)
	if err := m.stop(); err != nil {
		t.Fatalf("Subscribe: %v", err)
	}
	right := known.floor(n)
	if right.Generation == "" || right.Position == 0 || right.EventID == "" {
		t.Fatalf("deliveries lead to the floor %+v", right)
	}
	for name, change := range map[string]func(*settle.Floor){
		"another generation":       func(f *settle.Floor) { f.Generation = "another" },
		"a position past the end":  func(f *settle.Floor) { f.Position += 1000 },
		"another event at the end": func(f *settle.Floor) { f.EventID = "another" },
	} {
		wrong := right
		change(&wrong)
		g := newGroup(t, h, "restored")
		g.setFloor(n, wrong)
		m := g.join(joining{})
		if err := m.result(); !errors.Is(err, settle.ErrNewGeneration) {
			t.Errorf("%s: Subscribe returned %v", name, err)
		} else if len(err.Error()) <= len(settle.ErrNewGeneration.Error()) {
			t.Errorf("%s: the error does not say what differs: %v", name, err)
		}
		for _, a := range g.all() {
			if a.partition == n {
				t.Errorf("%s: position %d was delivered", name, a.record.Position)
			}
		}
	}
	g := newGroup(t, h, "right") // the same floor, unchanged, goes on
	g.setFloor(n, right)
	g.join(joining{})
	more := message(h, "k", 11)
	publish(t, h, h.Broker, []settle.Message{more})
	g.await("what follows the floor", func() bool { return g.times()[more.Event.ID] == 1 })
	if extra := len(g.all()); extra != 1 {
		t.Errorf("%d records are delivered behind the floor, want 1", extra)
	}
}

func madeAnew(t testing.TB, h Harness) {
	batch := messages(h, "k", 20, 5)
	publish(t, h, h.Broker, batch)
	g := newGroup(t, h, "outlived")
	m := g.join(joining{name: "same"})
	g.awaitAll(batch)
	if err := m.stop(); err != nil {
		t.Fatalf("Subscribe: %v", err)
	}
	done := len(g.all())
	h.Recreate(t)
	ctx, cancel := context.WithTimeout(context.Background(), h.Patience)
	defer cancel()
	if _, err := publishUntilHeld(ctx, h.Broker, messages(h, "new", 40, 10)); err != nil {
		t.Fatal(err)
	}
	if err := g.join(joining{name: "same"}).result(); !errors.Is(err, settle.ErrNewGeneration) {
		t.Errorf("Subscribe returned %v", err)
	}
	for _, a := range g.all()[done:] {
		if floor := g.floor(a.partition); floor.Position > 0 && a.record.Position > floor.Position {
			t.Errorf("position %d of the new topic was applied over a floor of the old one", a.record.Position)
		}
	}
}

func idleFloor(t testing.TB, h Harness) {
	quiet := message(h, "quiet", 1)
	n := publish(t, h, h.Broker, []settle.Message{quiet})[0].At.Partition
	var busy []settle.Message
	for i := 0; len(busy) < 20; i++ {
		if m := message(h, fmt.Sprint("busy", i), 1); settle.PartitionOf(m.Event.Key(), partitionsOf(h, t)) != n {
			busy = append(busy, m)
		}
	}
	g := newGroup(t, h, "idle")
	g.join(joining{})
	receipts := publish(t, h, h.Broker, busy)
	g.awaitAll(append(busy, quiet))
	last := receipts[0].At.Offset
	for _, r := range receipts {
		last = max(last, r.At.Offset)
	}
	g.await("the idle floor to rise", func() bool { return g.floor(n).Position >= last })
	if f := g.floor(n); f.Generation == "" || f.EventID == "" {
		t.Errorf("the raised floor is %+v", f)
	}
	next := message(h, "quiet", 2)
	publish(t, h, h.Broker, []settle.Message{next})
	g.awaitAll(append(busy, quiet, next))
}

// partitionsOf asks how many partitions the topic has by claiming them.
func partitionsOf(h Harness, t testing.TB) int {
	g := newGroup(t, h, "counting")
	m := g.join(joining{})
	g.await("a claim", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.leases) > 0
	})
	_ = m.stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.leases)
}
