package brokertest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// leaseTime is long enough for a busy machine to renew in time.
const leaseTime = 2 * time.Second

// group is a consumer group under test.
type group struct {
	t    testing.TB
	h    Harness
	name string
	*ledger
}

func newGroup(t testing.TB, h Harness, name string) *group {
	return newGroupWithLease(t, h, name, leaseTime)
}

func newGroupWithLease(t testing.TB, h Harness, name string, ttl time.Duration) *group {
	g := &group{t: t, h: h, name: name, ledger: newLedger(ttl)}
	t.Cleanup(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, what := range g.broken[:min(len(g.broken), 5)] {
			t.Errorf("group %s: %s", name, what)
		}
	})
	return g
}

// member is one Subscribe call.
type member struct {
	g    *group
	name string
	// hook runs in each delivery before it is applied; its error fails it.
	hook   func(ctx context.Context, p settle.Partition, records []settle.Record) error
	cancel context.CancelFunc
	ended  chan error
	// deliveries counts calls of Deliver.
	deliveries atomic.Int64
}

type joining struct {
	broker               settle.Broker
	name                 string
	maxRecords, maxBytes int
	hook                 func(ctx context.Context, p settle.Partition, records []settle.Record) error
}

// join starts a member; it is stopped at the end of the case at the latest.
func (g *group) join(j joining) *member {
	if j.broker == nil {
		j.broker = g.h.Broker
	}
	if j.name == "" {
		j.name = "member"
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{g: g, name: j.name, hook: j.hook, cancel: cancel, ended: make(chan error, 1)}
	s := settle.Subscription{Group: g.name, Topics: []string{g.h.Topic}, MaxRecords: j.maxRecords, MaxBytes: j.maxBytes}
	if !g.h.AssignsPartitions {
		s.Ownership = owner{l: g.ledger, name: j.name}
	}
	go func() { m.ended <- j.broker.Subscribe(ctx, s, m) }()
	g.t.Cleanup(func() {
		cancel()
		if !m.wait() {
			g.t.Errorf("Subscribe of %s does not return", j.name)
		}
	})
	return m
}

// Deliver implements settle.Sink.
func (m *member) Deliver(ctx context.Context, p settle.Partition, records []settle.Record) error {
	m.deliveries.Add(1)
	leased := !m.g.h.AssignsPartitions
	m.g.enter(m.name, leased, p, records)
	defer m.g.leave(p)
	if m.hook != nil {
		if err := m.hook(ctx, p, records); err != nil {
			return err
		}
	}
	return m.g.commit(m.name, leased, p, records)
}

// stop ends the member and returns what Subscribe returned.
func (m *member) stop() error {
	m.g.t.Helper()
	m.cancel()
	return m.result()
}

// result waits for Subscribe to return.
func (m *member) result() error {
	m.g.t.Helper()
	select {
	case err := <-m.ended:
		m.ended <- err
		return err
	case <-time.After(m.g.h.Patience):
		m.g.t.Fatalf("Subscribe of %s does not return", m.name)
		return nil
	}
}

func (m *member) wait() bool {
	select {
	case err := <-m.ended:
		m.ended <- err
		return true
	case <-time.After(m.g.h.Patience):
		return false
	}
}

// await waits until ok holds; it is asked again after every change.
func (g *group) await(what string, ok func() bool) {
	g.t.Helper()
	deadline := time.After(g.h.Patience)
	for {
		g.mu.Lock()
		changed := g.changed
		g.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			g.t.Fatalf("group %s waits in vain for %s", g.name, what)
		}
	}
}

// awaitAll waits until every one of the messages was applied, and checks that
// each was applied once and in order per key.
func (g *group) awaitAll(batch []settle.Message) {
	g.t.Helper()
	g.await("all events", func() bool {
		have := g.times()
		for _, m := range batch {
			if have[m.Event.ID] == 0 {
				return false
			}
		}
		return true
	})
	for id, n := range g.times() {
		if n > 1 {
			g.t.Errorf("group %s: event %s was applied %d times", g.name, id, n)
		}
	}
	checkOrder(g.t, "group "+g.name, g.order())
}

// times counts how often each event was applied.
func (g *group) times() map[string]int {
	times := map[string]int{}
	for _, a := range g.all() {
		if a.record.Event != nil {
			times[a.record.Event.ID]++
		}
	}
	return times
}

// order returns the events as they were applied.
func (g *group) order() []*settle.Event {
	var events []*settle.Event
	for _, a := range g.all() {
		if a.record.Event != nil {
			events = append(events, a.record.Event)
		}
	}
	return events
}
