package relay

import (
	"testing"
	"time"

	"github.com/settlemq/settle"
)

func TestARecordRefusedParksItsKeyAndEveryoneElseFlows(t *testing.T) {
	w := newWorld(t, Config{})
	w.broker.refuse = refuseEvents(settle.ScopeRecord, "e1")
	w.store.add("bad", "a")
	w.store.add("good", "a")
	w.store.add("bad", "a")
	w.run(time.Second)
	w.wantSent(t, "e2")
	w.store.add("bad", "a")
	w.store.add("good", "a")
	w.run(300 * time.Millisecond)
	w.wantSent(t, "e2", "e5")
	rows := w.store.parked[[2]string{"a", "bad"}]
	if len(rows) != 3 || rows[0].row.Attempts != 1 || rows[0].class != settle.ClassPublish || rows[1].class != settle.ClassFollower {
		t.Fatalf("parked %+v", rows)
	}
	if r := w.store.check.Readers[0]; len(r.Open) != 0 {
		t.Errorf("the checkpoint does not pass the parked rows: %v", r.Open)
	}
	w.broker.refuse = nil
	w.run(3 * time.Second)
	w.wantSent(t, "e2", "e5", "e1", "e3", "e4")
	if len(w.store.parked) != 0 || w.m.parked != 0 {
		t.Error("the key is still parked")
	}
	w.store.add("bad", "a")
	w.run(time.Second)
	w.wantSent(t, "e2", "e5", "e1", "e3", "e4", "e6")
}

func TestNothingOfAParkedKeyIsSentBeforeTheParkIsCommitted(t *testing.T) {
	w := newWorld(t, Config{Retry: settle.Backoff{Base: time.Nanosecond}})
	w.run(time.Second)
	w.broker.refuse = refuseEvents(settle.ScopeRecord, "e1")
	w.store.add("k", "a")
	w.store.add("k", "a")
	w.step(Woken{})
	w.callAll()
	w.answer(0)
	w.broker.refuse = nil
	w.now = w.now.Add(time.Second)
	for len(w.calls) > 0 {
		if _, commit := w.calls[0].(Commit); commit {
			break
		}
		w.call()
	}
	w.step(Tick{})
	if len(w.pubs) > 0 {
		t.Fatal("sent although the park is not committed")
	}
	for _, c := range w.calls {
		if side, ok := c.(ReadSide); ok && side.Query.Side == SideParked {
			t.Fatal("read although the park is not committed")
		}
	}
	w.run(time.Second)
	w.wantSent(t, "e1", "e2")
}

func TestAnEventDiesAfterItsAttemptsAndBlocksItsKeyUntilAPersonDecides(t *testing.T) {
	w := newWorld(t, Config{Retry: settle.Backoff{Base: time.Millisecond, Attempts: 3}})
	w.broker.refuse = refuseEvents(settle.ScopeRecord, "e1")
	w.store.add("bad", "a")
	w.store.add("bad", "a")
	w.run(5 * time.Second)
	d, dead := w.store.dead[1]
	if !dead || d.Attempts != 3 || d.Class != settle.ClassPublish || d.Unblock {
		t.Fatalf("dead letter %+v (%v)", d, dead)
	}
	w.wantSent(t)
	w.broker.refuse = nil
	w.run(5 * time.Second)
	w.wantSent(t)
	// Replay: the head is due again.
	k := [2]string{"a", "bad"}
	w.store.parked[k][0].dead = false
	w.store.parked[k][0].nextAt = w.now
	w.run(3 * time.Second)
	w.wantSent(t, "e1", "e2")
}

func TestADiscardedHeadLetsThoseBehindItGoOn(t *testing.T) {
	w := newWorld(t, Config{})
	w.broker.refuse = func(m settle.Message) error {
		if m.Event.ID == "e1" {
			return &settle.PublishError{Scope: settle.ScopeRecord, Err: settle.Permanent(errNoAnswer)}
		}
		return nil
	}
	w.store.add("bad", "a")
	w.store.add("bad", "a")
	w.run(time.Second)
	if d := w.store.dead[1]; d.Class != settle.ClassPermanent || d.Attempts != 1 {
		t.Fatalf("a permanent refusal is not dead at once: %+v", d)
	}
	w.store.leave(FromParked, 1, "a")
	w.run(3 * time.Second)
	w.wantSent(t, "e2")
	if w.m.parked != 0 {
		t.Error("the key is still parked")
	}
}

func TestByPolicyPassThoseBehindADeadEventGoOn(t *testing.T) {
	w := newWorld(t, Config{Pass: true, Retry: settle.Backoff{Attempts: 1}})
	w.broker.refuse = refuseEvents(settle.ScopeRecord, "e1")
	w.store.add("bad", "a")
	w.store.add("bad", "a")
	w.run(time.Second)
	w.wantSent(t, "e2")
	if len(w.store.dead) != 1 || len(w.store.parked) != 0 {
		t.Errorf("dead %v, parked %v", w.store.dead, w.store.parked)
	}
}

func TestARowThatIsNoEventDiesAtOnce(t *testing.T) {
	w := newWorld(t, Config{})
	w.store.add("k", "a").Defect = "payload is cut"
	w.store.add("other", "a")
	w.store.add("k", "a")
	w.run(time.Second)
	w.wantSent(t, "e2")
	if d := w.store.dead[1]; d.Class != settle.ClassInvalid || d.Cause != "payload is cut" {
		t.Errorf("dead letter %+v", d)
	}
}

func TestAParkedRowWhoseOutboxRowIsGoneBecomesADeadLetter(t *testing.T) {
	w := newWorld(t, Config{})
	w.broker.refuse = refuseEvents(settle.ScopeRecord, "e1")
	w.store.add("bad", "a")
	w.run(time.Second)
	w.store.parked[[2]string{"a", "bad"}][0].row.Event = nil
	delete(w.store.rows, 1)
	w.run(5 * time.Second)
	if d := w.store.dead[1]; d.Class != settle.ClassRowDeleted {
		t.Errorf("dead letter %+v", d)
	}
}

func TestABrokerThatDoesNotAnswerCostsNoAttempt(t *testing.T) {
	w := newWorld(t, Config{Retry: settle.Backoff{Attempts: 1}})
	w.broker.refuse = func(settle.Message) error { return errNoAnswer }
	w.store.add("k", "a")
	w.store.add("k", "a")
	w.run(time.Minute)
	if len(w.store.parked)+len(w.store.dead) > 0 {
		t.Fatalf("parked %v, dead %v", w.store.parked, w.store.dead)
	}
	w.broker.refuse = nil
	w.run(6 * time.Second)
	w.wantSent(t, "e1", "e2")
	if again := w.m.Stats(w.now).PublishedAgain; again == 0 {
		t.Error("published again is not counted")
	}
}

func TestKeysThatAreNeverAnsweredWhileOthersAreAreParkedWithoutAnAttempt(t *testing.T) {
	w := newWorld(t, Config{})
	w.broker.refuse = func(m settle.Message) error {
		if m.Event.AggregateID == "mute" {
			return errNoAnswer
		}
		return nil
	}
	w.store.add("mute", "a")
	w.store.add("mute", "a")
	for range 200 {
		w.store.add("k", "a")
		w.run(100 * time.Millisecond)
	}
	rows := w.store.parked[[2]string{"a", "mute"}]
	if len(rows) != 2 || rows[0].row.Attempts != 0 {
		t.Fatalf("parked %+v", rows)
	}
	w.broker.refuse = nil
	w.run(time.Minute)
	w.wantSound(t)
	if len(w.store.parked) != 0 || !w.store.rows[1].sent || !w.store.rows[2].sent {
		t.Error("the key did not recover")
	}
}

func TestATopicThatTakesNothingOpensItsCircuitAndOthersFlow(t *testing.T) {
	w := newWorld(t, Config{})
	w.broker.refuse = refuseTopic(settle.ScopeTopic, "down")
	w.store.add("k", "down")
	w.store.add("k", "up")
	w.run(500 * time.Millisecond)
	w.wantSent(t, "e2")
	tries := 0
	for _, c := range w.log {
		if p, ok := c.(Publish); ok && p.Destination == "down" {
			tries++
		}
	}
	if tries != 1 {
		t.Errorf("%d tries in half a second of an open circuit", tries)
	}
	w.broker.refuse = nil
	w.run(time.Second)
	w.wantSent(t, "e2", "e1")
	if len(w.store.parked) > 0 {
		t.Error("parked for the topic's fault")
	}
}
