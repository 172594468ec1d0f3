package relay

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// fenceAt makes the broker refuse what was decided before the first batch that
// it sees: what a broker does that fences.
func (w *world) fenceAt() {
	begun := int64(0)
	w.broker.refuse = func(m settle.Message) error {
		if begun == 0 {
			begun = m.Lead.Load
		}
		if m.Lead.Load <= begun {
			return &settle.PublishError{Scope: settle.ScopeBroker, Err: fmt.Errorf("it has only just begun: %w", settle.ErrFenced)}
		}
		return nil
	}
}

func TestARelayThatItsBrokerFencesLoadsAnewBeforeItPublishesAgain(t *testing.T) {
	w := newWorld(t, Config{Name: "shop", Lane: 7})
	w.fenceAt()
	for range 3 {
		w.store.add("k", "a")
	}
	w.store.add("other", "b")
	w.run(5 * time.Second)
	w.wantSent(t, "e1", "e2", "e3", "e4")
	if len(w.broker.log) != 4 || len(w.store.parked)+len(w.store.dead) != 0 {
		t.Errorf("%d copies, %d parked keys, %d dead", len(w.broker.log), len(w.store.parked), len(w.store.dead))
	}
	for _, m := range w.broker.log {
		if m.Lead.Outbox != "shop" || m.Lead.Lane != 7 {
			t.Errorf("it is published for %+v", m.Lead)
		}
	}
	fenced, proved := false, false
	for _, c := range w.log {
		switch c := c.(type) {
		case Load:
			proved = fenced
		case Publish:
			if fenced && !proved && c.Messages[0].Lead.Load > 1 {
				t.Fatal("it publishes without having loaded")
			}
			fenced = true
		}
	}
	if !proved {
		t.Error("it never loaded anew")
	}
}

func TestARelayThatWasReplacedPublishesNothingAfterItsBrokerHasFencedIt(t *testing.T) {
	w := newWorld(t, Config{Name: "shop"})
	w.fenceAt()
	w.store.add("k", "a")
	for len(w.pubs) == 0 {
		w.call()
	}
	ttl := w.m.cfg.LeaseTTL
	w.now = w.now.Add(ttl)
	if l, err := w.store.Lead(context.Background(), "another", 0, 10*ttl); err != nil || !l.Held {
		t.Fatalf("another can't take over: %+v, %v", l, err)
	}
	w.answer(0)
	w.run(5 * time.Second)
	w.wantSent(t)
	if w.m.phase != following {
		t.Errorf("it is in phase %v", w.m.phase)
	}
}
