package relay

import (
	"log/slog"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestEventsAreSentInOrderAndTheirAcknowledgementIsCommitted(t *testing.T) {
	w := newWorld(t, Config{})
	for range 3 {
		w.store.add("k", "a")
	}
	w.run(time.Second)
	w.wantSent(t, "e1", "e2", "e3")
	r := w.store.check.Readers[0]
	if r.Cursor != 3 || r.CursorEvent != "e3" || len(r.Open) != 0 {
		t.Errorf("checkpoint says %+v", r)
	}
	if len(w.broker.log) != 3 {
		t.Errorf("%d copies for 3 events", len(w.broker.log))
	}
}

func TestANewLeaderWritesItsOwnCheckpointBeforeItPolls(t *testing.T) {
	w := newWorld(t, Config{})
	w.run(time.Second)
	for _, c := range w.log {
		switch c.(type) {
		case Poll:
			t.Fatal("polled first")
		case Commit:
			return
		}
	}
	t.Fatal("no checkpoint at all")
}

func TestWhatWasAcknowledgedAndNotCommittedIsSentAgainAfterACrash(t *testing.T) {
	w := newWorld(t, Config{})
	w.run(time.Second)
	w.store.add("k", "a")
	for len(w.pubs) == 0 {
		w.run(time.Millisecond)
		if len(w.pubs) == 0 && len(w.broker.log) > 0 {
			break
		}
	}
	w.store.add("k", "a")
	w.step(Woken{})
	w.callAll()
	if len(w.pubs) != 1 {
		t.Fatal("no batch in flight")
	}
	w.answer(0) // the commit that follows is never made
	w.kill()
	w.run(time.Second)
	w.wantSent(t, "e1", "e2")
	if len(w.broker.log) != 3 {
		t.Errorf("%d copies, want e2 twice", len(w.broker.log))
	}
}

func TestAHoleBlocksNothingAndItsRowIsSentWhenItShowsUp(t *testing.T) {
	w := newWorld(t, Config{})
	w.store.add("k", "a")
	late := w.store.allocate("x", "a")
	w.store.add("k", "a")
	w.run(time.Second)
	w.wantSent(t, "e1", "e3")
	if r := w.store.check.Readers[0]; len(r.Open) != 1 || r.Open[0] != late {
		t.Errorf("the hole is not in the checkpoint: %+v", r)
	}
	w.store.rows[late].visible = true
	w.run(time.Second)
	w.wantSent(t, "e1", "e3", "e2")
}

func TestAHoleIsRememberedOverACrash(t *testing.T) {
	w := newWorld(t, Config{})
	late := w.store.allocate("x", "a")
	w.store.add("k", "a")
	w.run(time.Second)
	w.kill()
	w.run(time.Second)
	w.store.rows[late].visible = true
	w.run(time.Second)
	w.wantSent(t, "e2", "e1")
}

func TestAHoleTurnsColdOnlyWithoutOwnersAfterItsMinimumAge(t *testing.T) {
	w := newWorld(t, Config{HoleAge: 2 * time.Second})
	open := true
	w.store.owners = func(before Evidence) Evidence {
		// Without a token nothing is asked, and an answer must not count.
		return Evidence{Known: true, Token: "t1", Clear: before.Token == "" || !open}
	}
	w.store.allocate("x", "a")
	w.store.add("k", "a")
	w.run(10 * time.Second)
	if len(w.store.gap) > 0 {
		t.Fatal("cold while its owner is open")
	}
	open = false
	w.run(3 * time.Second)
	if !w.store.gap[1] {
		t.Fatal("not cold although it has no owner")
	}
	if r := w.store.check.Readers[0]; len(r.Open) != 0 {
		t.Errorf("still open: %v", r.Open)
	}
	w.wantSound(t)
}

func TestAYoungHoleIsNotCold(t *testing.T) {
	w := newWorld(t, Config{HoleAge: 2 * time.Second})
	w.run(time.Second)
	w.store.allocate("x", "a")
	w.store.add("k", "a")
	w.run(1900 * time.Millisecond)
	if len(w.store.gap) > 0 {
		t.Error("cold before its minimum age")
	}
	w.run(time.Second)
	if !w.store.gap[1] {
		t.Error("never cold")
	}
}

func TestWhereOwnersCannotBeAskedGraceCounts(t *testing.T) {
	w := newWorld(t, Config{HoleGrace: 30 * time.Second})
	w.store.owners = func(Evidence) Evidence { return Evidence{} }
	w.store.allocate("x", "a")
	w.store.add("k", "a")
	w.run(29 * time.Second)
	if len(w.store.gap) > 0 {
		t.Error("cold before the grace is over")
	}
	w.run(5 * time.Second)
	if !w.store.gap[1] {
		t.Error("never cold")
	}
}

func TestARowBehindAColdHoleIsFoundBySweepAndSent(t *testing.T) {
	w := newWorld(t, Config{})
	w.store.allocate("x", "a")
	w.store.add("k", "a")
	w.run(10 * time.Second)
	if !w.store.gap[1] {
		t.Fatal("not cold")
	}
	w.store.rows[1].visible = true
	w.run(31 * time.Second)
	w.wantSent(t, "e2", "e1")
	if got := w.m.Stats(w.now).Late; got != 1 {
		t.Errorf("late = %d", got)
	}
}

func TestAWideJumpOfIdsIsPassedPieceByPieceInBoundedMemory(t *testing.T) {
	w := newWorld(t, Config{MaxHoles: 10})
	w.store.add("k", "a")
	w.store.nextID += 35
	w.store.add("k", "a")
	for range 400 {
		w.run(100 * time.Millisecond)
		if n := len(w.m.main.unseen); n > 10 {
			t.Fatalf("%d holes in memory", n)
		}
	}
	w.wantSent(t, "e1", "e37")
}

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
	w.store.leave(FromParked, 1, "a", "bad")
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

func TestADestinationThatFallsBehindReadsForItselfInBoundedMemory(t *testing.T) {
	w := newWorld(t, Config{BatchRows: 10})
	w.broker.refuse = refuseTopic(settle.ScopeTopic, "down")
	for i := range 500 {
		topic := "down"
		if i%5 == 0 {
			topic = "up"
		}
		w.store.add("k", topic)
	}
	w.run(time.Minute)
	if n := w.m.Stats(w.now).Pending; n > 50 {
		t.Errorf("%d rows in memory", n)
	}
	if n := len(w.broker.firsts()); n != 100 {
		t.Errorf("%d of 100 events of the other topic sent", n)
	}
	if len(w.store.check.Readers) != 2 || w.store.check.Readers[1].Destination != "down" {
		t.Fatalf("readers %+v", w.store.check.Readers)
	}
	w.kill() // its reader is found again
	w.run(time.Minute)
	w.broker.refuse = nil
	w.run(time.Minute)
	if n := len(w.broker.firsts()); n != 500 {
		t.Errorf("%d of 500 events sent", n)
	}
	w.store.add("k", "up")
	w.run(time.Second)
	if len(w.store.check.Readers) != 1 {
		t.Errorf("it did not join again: %+v", w.store.check.Readers)
	}
	w.wantSound(t)
	wantKeyOrder(t, w)
}

func TestARateLimitHoldsOneTopicBackAndNoOther(t *testing.T) {
	w := newWorld(t, Config{BatchRows: 10, RateLimit: map[string]float64{"slow": 20}})
	for range 200 {
		w.store.add("k", "slow")
		w.store.add("k", "fast")
	}
	w.run(2 * time.Second)
	slow, fast := 0, 0
	for _, m := range w.broker.log {
		if m.Event.Topic == "slow" {
			slow++
		} else {
			fast++
		}
	}
	if fast != 200 || slow < 35 || slow > 45 {
		t.Errorf("after 2 s at 20/s: %d slow, %d fast", slow, fast)
	}
	w.run(20 * time.Second)
	if len(w.broker.log) != 400 {
		t.Errorf("%d copies of 400 events", len(w.broker.log))
	}
	wantKeyOrder(t, w)
}

func TestADelayedEventIsRecordedAndSentWhenDue(t *testing.T) {
	w := newWorld(t, Config{})
	w.store.add("k", "a").Event.NotBefore = w.now.Add(time.Minute)
	w.store.add("k", "a").Event.NotBefore = w.now.Add(5 * time.Second)
	w.run(10 * time.Second)
	w.wantSent(t, "e2")
	if len(w.store.delayed) != 1 {
		t.Fatal("not recorded")
	}
	w.kill()
	w.run(time.Minute)
	w.wantSent(t, "e2", "e1")
	if len(w.store.delayed) != 0 {
		t.Error("still recorded")
	}
}

func TestADueEventOfAParkedKeyJoinsItsKey(t *testing.T) {
	w := newWorld(t, Config{Retry: settle.Backoff{Base: time.Minute, Jitter: -1}})
	w.broker.refuse = refuseEvents(settle.ScopeRecord, "e2")
	w.store.add("k", "a").Event.NotBefore = w.now.Add(20 * time.Second)
	w.store.add("k", "a")
	w.run(30 * time.Second)
	if rows := w.store.parked[[2]string{"a", "k"}]; len(rows) != 2 || rows[1].row.ID != 1 {
		t.Fatalf("parked %+v", rows)
	}
	w.broker.refuse = nil
	w.run(5 * time.Minute)
	w.wantSent(t, "e2", "e1")
}

func TestABacklogIsDrainedBeforeTheLog(t *testing.T) {
	w := newWorld(t, Config{BatchRows: 10})
	w.now = w.now.Add(w.m.cfg.LeaseTTL)
	for range 25 {
		id := w.store.add("k", "a").ID
		w.store.extra[id] = ""
	}
	w.store.check = Checkpoint{Number: 1, Readers: []Reader{{Cursor: 25, CursorEvent: "e25"}}}
	w.store.add("k", "a")
	w.start()
	w.run(time.Second)
	if n := len(w.broker.firsts()); n != 26 {
		t.Errorf("%d of 26 sent", n)
	}
	wantKeyOrder(t, w)
	w.wantSound(t)
}

func TestAResendKeepsItsMessageID(t *testing.T) {
	w := newWorld(t, Config{})
	w.store.add("k", "a")
	w.run(time.Second)
	w.store.extra[1] = "e1#1"
	w.kill()
	w.run(time.Second)
	if n := len(w.broker.log); n != 2 || w.broker.log[1].ID != "e1#1" {
		t.Errorf("log %+v", w.broker.log)
	}
}

func TestPausesHoldARelayATopicAndAKey(t *testing.T) {
	for _, pause := range []settle.Control{{Kind: "relay"}, {Kind: "topic", Name: "a"}, {Kind: "key", Name: "k"}} {
		t.Run(pause.Kind, func(t *testing.T) {
			w := newWorld(t, Config{})
			w.run(time.Second)
			w.store.control(func(c *Controls) { c.Rows = append(c.Rows, pause) })
			w.run(2 * time.Second)
			w.store.add("k", "a")
			w.store.add("k", "a")
			w.store.add("other", "b")
			w.run(10 * time.Second)
			if pause.Kind == "relay" {
				w.wantSent(t)
			} else {
				w.wantSent(t, "e3")
			}
			w.store.control(func(c *Controls) { c.Rows = nil })
			w.run(3 * time.Second)
			if n := len(w.broker.firsts()); n != 3 {
				t.Errorf("%d of 3 sent after resume", n)
			}
			wantKeyOrder(t, w)
			for _, f := range w.store.commits {
				for _, p := range f.Park {
					if p.Attempts != 0 {
						t.Errorf("a pause costs an attempt: %+v", p)
					}
				}
			}
			w.wantSound(t)
		})
	}
}

func TestANamedEventIsSkipped(t *testing.T) {
	w := newWorld(t, Config{})
	w.run(time.Second)
	w.store.control(func(c *Controls) { c.Skips = []string{"e1"} })
	w.run(2 * time.Second)
	w.store.add("k", "a")
	w.store.add("k", "a")
	w.run(time.Second)
	w.wantSent(t, "e2")
	if !w.store.skipped[1] {
		t.Error("not recorded")
	}
}

func TestRowsThatMightVanishAreNotPublishedBeforeACommit(t *testing.T) {
	w := newWorld(t, Config{})
	w.run(time.Second)
	w.store.notDurable = true
	w.store.add("k", "a")
	w.step(Woken{})
	for len(w.pubs) == 0 {
		if len(w.calls) == 0 {
			t.Fatal("nothing happens")
		}
		_, commit := w.calls[0].(Commit)
		w.call()
		if commit {
			if len(w.pubs) == 0 {
				t.Error("not published after the commit")
			}
			return
		}
	}
	t.Error("published before a commit")
}
