package relay

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

func TestOnlyOneLeadsAndTheOtherTakesOverWhenTheLeaseRunsOut(t *testing.T) {
	w := newWorld(t, Config{})
	w.run(time.Second)
	second := &world{t: t, now: w.now, cfg: w.cfg, store: w.store, broker: w.broker, owners: 100}
	w.store.now = func() time.Time { return second.now }
	second.start()
	w.store.add("k", "a")
	second.run(9 * time.Second)
	w.wantSent(t)
	second.run(3 * time.Second)
	w.now = second.now
	w.wantSent(t, "e1")
	if !second.m.Stats(second.now).Leading {
		t.Error("the second does not lead")
	}
}

func TestAZombieForgetsAllAsSoonAsItReadsAnotherLeadersCheckpoint(t *testing.T) {
	w := newWorld(t, Config{})
	w.run(time.Second)
	w.store.add("k", "a")
	w.step(Woken{})
	poll := w.calls[0].(Poll)
	// Another leader has written a checkpoint; our lease still seems to run.
	w.store.epoch++
	w.store.checkEpoch, w.store.check.Number = w.store.epoch, w.store.check.Number+1
	page, err := w.store.Poll(t.Context(), poll.Query)
	if err != nil {
		t.Fatal(err)
	}
	w.calls = nil
	w.step(Polled{Query: poll.Query, Page: page})
	if len(w.pubs) > 0 {
		t.Fatal("it sent what it read")
	}
	w.run(time.Second)
	if s := w.m.Stats(w.now); s.Leading && s.Epoch != w.store.epoch {
		t.Errorf("still leads: %+v", s)
	}
}

func TestAPageOfAnOlderCheckpointOfOursIsNotOurLastOne(t *testing.T) {
	w := newWorld(t, Config{})
	w.store.add("k", "a")
	w.run(time.Second)
	// The database was restored to before our last commit.
	w.store.check.Number--
	loads := w.store.check.Number
	w.store.check.Readers[0].Cursor = 0
	w.store.check.Readers[0].CursorEvent = ""
	w.store.rows[1].sent = false
	w.run(time.Second)
	if len(w.broker.log) != 2 {
		t.Errorf("%d copies, want the event again: checkpoint %d", len(w.broker.log), loads)
	}
}

func TestNothingIsPublishedWithoutEnoughOfTheLeaseLeft(t *testing.T) {
	w := newWorld(t, Config{})
	w.run(time.Second)
	w.store.fails[askLead] = errors.New("no connection")
	w.store.add("k", "a")
	w.now = w.now.Add(6500 * time.Millisecond)
	w.step(Woken{})
	w.callAll()
	if len(w.pubs) != 1 {
		t.Fatal("nothing is sent although there is time")
	}
	if left := w.m.lease.Expires.Sub(w.now); w.pubs[0].Timeout >= left {
		t.Errorf("a publish of %v in a lease of %v", w.pubs[0].Timeout, left)
	}
	w.answer(0)
	w.store.add("k", "a")
	w.now = w.m.lease.Expires.Add(-time.Second)
	w.step(Woken{})
	w.callAll()
	if len(w.pubs) != 0 {
		t.Error("sent in the last second of the lease")
	}
	w.now = w.m.lease.Expires
	w.step(Tick{})
	for _, c := range w.calls {
		if _, lead := c.(Lead); !lead {
			t.Errorf("%T without a lease", c)
		}
	}
	delete(w.store.fails, askLead)
	w.run(10 * time.Second)
	w.wantSent(t, "e1", "e2")
	if len(w.broker.log) != 2 {
		t.Errorf("%d copies: the same epoch need not forget anything", len(w.broker.log))
	}
}

func TestAFencedCommitEndsLeadership(t *testing.T) {
	w := newWorld(t, Config{})
	w.store.fails[askCommit] = settle.ErrFenced
	w.run(time.Second)
	if w.m.Stats(w.now).Leading {
		t.Error("still leads")
	}
	delete(w.store.fails, askCommit)
	w.store.add("k", "a")
	w.run(5 * time.Second)
	w.wantSent(t, "e1")
}

func TestACommitWithUnknownOutcomeIsSettledByLoadingAgain(t *testing.T) {
	w := newWorld(t, Config{})
	w.run(time.Second)
	w.store.add("k", "a")
	w.step(Woken{})
	w.callAll()
	w.answer(0)
	for _, c := range w.calls {
		if commit, ok := c.(Commit); ok {
			if err := w.store.Commit(t.Context(), commit.Lease, commit.Flush); err != nil {
				t.Fatal(err)
			}
			w.calls = nil
			w.step(Failed{Command: c, Err: errors.New("answer lost")})
		}
	}
	w.run(5 * time.Second)
	w.wantSent(t, "e1")
	if len(w.broker.log) != 1 {
		t.Errorf("%d copies although the commit was made", len(w.broker.log))
	}
}

func TestABatchOfAnEarlierLifeKeepsItsDestinationBusyUntilAnswered(t *testing.T) {
	w := newWorld(t, Config{})
	w.run(time.Second)
	w.store.add("k", "a")
	w.step(Woken{})
	w.callAll()
	if len(w.pubs) != 1 {
		t.Fatal("nothing in flight")
	}
	w.store.fails[askCommit] = errors.New("no connection")
	w.m.flush.force = true // a commit is due for any reason, and fails
	w.step(Tick{})
	w.callAll()
	delete(w.store.fails, askCommit)
	for range 20 {
		w.now = w.now.Add(100 * time.Millisecond)
		w.step(Tick{})
		w.callAll()
	}
	if len(w.pubs) != 1 {
		t.Fatalf("%d publishes of one key in flight", len(w.pubs))
	}
	w.answer(0)
	w.run(time.Second)
	w.wantSent(t, "e1")
	if len(w.broker.log) != 2 {
		t.Errorf("%d copies, want the second one of the new life", len(w.broker.log))
	}
}

func TestAnotherGenerationOfTheTableStopsTheRelayWithAClearMessage(t *testing.T) {
	for name, spoil := range map[string]func(*fakeStore){
		"the sequence is behind the cursor":    func(s *fakeStore) { s.nextID = 1 },
		"another event is found at the cursor": func(s *fakeStore) { s.rows[2].row.Event = &settle.Event{ID: "other"} },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{})
			w.store.add("k", "a")
			w.store.add("k", "a")
			w.run(time.Second)
			spoil(w.store)
			w.kill()
			w.run(time.Minute)
			if w.halted == nil || !errors.Is(w.halted.Err, settle.ErrNewGeneration) {
				t.Fatalf("it ended with %v", w.halted)
			}
			if !strings.Contains(w.halted.Err.Error(), "Nothing is sent and nothing is skipped until a person decides") {
				t.Errorf("message: %v", w.halted.Err)
			}
			if !w.store.clean {
				t.Error("it kept the lease")
			}
			if len(w.broker.log) != 2 {
				t.Errorf("it sent something: %v", w.broker.log)
			}
		})
	}
}

func TestAGoneRowAtTheCursorIsNoOtherGeneration(t *testing.T) {
	w := newWorld(t, Config{})
	w.store.add("k", "a")
	w.run(time.Second)
	delete(w.store.rows, 1)
	w.kill()
	w.store.add("k", "a")
	w.run(time.Second)
	w.wantSent2(t)
}

// wantSent2 is for worlds whose sent rows were deleted.
func (w *world) wantSent2(t *testing.T) {
	t.Helper()
	if len(w.broker.log) != 2 || w.halted != nil {
		t.Errorf("log %v, halted %v", w.broker.log, w.halted)
	}
}

func TestStoppingFinishesWhatIsInFlightCommitsItAndResigns(t *testing.T) {
	w := newWorld(t, Config{})
	w.run(time.Second)
	w.store.add("k", "a")
	w.step(Woken{})
	w.callAll()
	w.store.add("k", "a")
	w.step(Stopping{})
	w.callAll()
	if w.halted != nil {
		t.Fatal("halted with a batch in flight")
	}
	w.answer(0)
	w.callAll()
	if w.halted == nil || w.halted.Err != nil {
		t.Fatalf("halted %v", w.halted)
	}
	if !w.store.clean || !w.store.rows[1].sent {
		t.Error("not resigned, or not committed")
	}
	w.wantSent(t, "e1")
	w.start()
	w.run(time.Second)
	w.wantSent(t, "e1", "e2")
	if w.m.lease.Deaths != 0 {
		t.Error("a clean end counts as a death")
	}
}

func TestStoppingWhileAnotherLeadsEndsAtOnce(t *testing.T) {
	w := newWorld(t, Config{})
	w.run(time.Second)
	second := &world{t: t, now: w.now, cfg: w.cfg, store: w.store, broker: w.broker, owners: 100}
	second.start()
	second.callAll()
	second.step(Stopping{})
	if second.halted == nil || second.halted.Err != nil {
		t.Errorf("halted %v", second.halted)
	}
}

func TestRetentionAndSweepRunAtABoundedPace(t *testing.T) {
	w := newWorld(t, Config{KeepFor: time.Hour, RetainEvery: 10 * time.Second, SweepEvery: 30 * time.Second})
	w.run(65 * time.Second)
	sweeps := 0
	for _, c := range w.log {
		if _, ok := c.(Sweep); ok {
			sweeps++
		}
	}
	if sweeps != 2 || len(w.store.retains) != 6 {
		t.Errorf("%d sweeps, %d deletions in 65 s", sweeps, len(w.store.retains))
	}
	if age := w.now.Sub(w.store.retains[5]); age < time.Hour || age > time.Hour+10*time.Second {
		t.Errorf("deletes what is older than %v", age)
	}
	w = newWorld(t, Config{})
	w.run(15 * time.Second)
	if len(w.store.retains) != 1 || !w.store.retains[0].IsZero() {
		t.Errorf("without KeepFor: %v", w.store.retains)
	}
}

func TestAStoreThatFailsIsAskedMoreAndMoreRarely(t *testing.T) {
	w := newWorld(t, Config{})
	w.run(time.Second)
	w.store.fails[askPoll] = errors.New("no connection")
	begun := len(w.log)
	w.run(5 * time.Second)
	polls := 0
	for _, c := range w.log[begun:] {
		if _, ok := c.(Poll); ok {
			polls++
		}
	}
	if polls < 3 || polls > 40 {
		t.Errorf("%d polls in 5 s", polls)
	}
	delete(w.store.fails, askPoll)
	w.store.add("k", "a")
	w.run(10 * time.Second)
	w.wantSent(t, "e1")
}
