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
