package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// behind returns a world in which topic "down" reads for itself.
func behind(t *testing.T, cfg Config) *world {
	w := newWorld(t, cfg)
	w.broker.refuse = refuseTopic(settle.ScopeTopic, "down")
	w.store.allocate("h1", "down")
	w.store.allocate("h2", "up")
	for range 10 * w.m.cfg.BatchRows {
		w.store.add("k", "down")
		w.store.add("k", "up")
	}
	w.run(time.Minute)
	if w.m.destination("down").reader == nil {
		t.Fatal("it does not read for itself")
	}
	return w
}

func TestAReaderThatFellBehindKnowsTheHolesOfTheMainOne(t *testing.T) {
	w := newWorld(t, Config{BatchRows: 2, HoleAge: time.Hour})
	w.broker.refuse = refuseTopic(settle.ScopeTopic, "down")
	w.store.allocate("h", "down")
	for range 20 {
		w.store.add("k", "down")
	}
	w.store.add("k", "up")
	w.run(time.Minute)
	if r := w.m.destination("down").reader; r == nil {
		t.Fatal("it does not read for itself")
	}
	w.store.rows[1].visible = true
	w.run(time.Second) // the main reader sees it while the topic is closed
	w.broker.refuse = nil
	w.run(2 * time.Minute)
	if n := len(w.broker.firsts()); n != 22 {
		t.Errorf("%d of 22 sent", n)
	}
	w.wantSound(t)
	wantKeyOrder(t, w)
}

func TestAHeldDestinationReadsNothing(t *testing.T) {
	w := behind(t, Config{BatchRows: 5})
	w.store.control(func(c *Controls) { c.Rows = []settle.Control{{Kind: "topic", Name: "down"}} })
	w.run(10 * time.Second)
	begun := len(w.log)
	w.run(10 * time.Second)
	for _, c := range w.log[begun:] {
		if p, ok := c.(Poll); ok && p.Destination == "down" {
			t.Fatal("it reads while paused")
		}
	}
	if d := w.m.destination("down"); d.waiting() > 0 {
		t.Errorf("%d rows in memory while paused", d.waiting())
	}
	w.wantSound(t)
}

func TestAColdHoleIsForgottenByAllReaders(t *testing.T) {
	w := behind(t, Config{BatchRows: 5})
	if !w.store.gap[1] || !w.store.gap[2] {
		t.Fatal("not cold")
	}
	for _, r := range w.store.check.Readers {
		for _, id := range r.Open {
			if id <= 2 {
				t.Errorf("reader %q still has %d", r.Destination, id)
			}
		}
	}
}

func TestASlowTopicDoesNotKeepOthersFromBeingRead(t *testing.T) {
	w := newWorld(t, Config{BatchRows: 5})
	w.store.add("k", "quick")
	w.run(time.Second)
	for range 50 {
		w.store.add("k", "slow")
	}
	w.store.add("k", "quick")
	w.step(Woken{})
	for range 100 { // the slow topic's batch is never answered
		w.callAll()
		for i, p := range w.pubs {
			if p.Destination == "quick" {
				w.answer(i)
				break
			}
		}
		w.now = w.now.Add(10 * time.Millisecond)
		w.step(Tick{})
	}
	w.wantSent(t, "e1", "e52")
	w.run(time.Minute)
	if n := len(w.broker.firsts()); n != 52 {
		t.Errorf("%d of 52 sent", n)
	}
	wantKeyOrder(t, w)
}

func TestASingleBusyTopicHoldsTheReaderBackInsteadOfReadingTwice(t *testing.T) {
	w := newWorld(t, Config{BatchRows: 5})
	for range 200 {
		w.store.add("k", "a")
	}
	w.run(time.Second)
	polls := 0
	for _, c := range w.log {
		if p, ok := c.(Poll); ok {
			polls++
			if p.Destination != "" {
				t.Fatal("it reads for itself although nobody waits")
			}
		}
	}
	if n := len(w.broker.firsts()); n != 200 {
		t.Errorf("%d of 200 sent", n)
	}
}

func TestBatchesAreBoundedInBytes(t *testing.T) {
	w := newWorld(t, Config{BatchRows: 100, BatchBytes: 10_000})
	for range 30 {
		w.store.add("k", "a").Event.Payload = make([]byte, 3000)
	}
	w.store.add("k", "a").Event.Payload = make([]byte, 20_000)
	w.run(time.Second)
	for _, c := range w.log {
		if p, ok := c.(Publish); ok {
			bytes := 0
			for _, m := range p.Messages {
				bytes += len(m.Event.Payload)
			}
			if bytes > 10_000 && len(p.Messages) > 1 {
				t.Errorf("a batch of %d bytes", bytes)
			}
		}
	}
	if n := len(w.broker.firsts()); n != 31 {
		t.Errorf("%d of 31 sent", n)
	}
}

func TestAnIdleOutboxIsPolledMoreAndMoreRarelyAndAtOnceWhenWoken(t *testing.T) {
	w := newWorld(t, Config{MaxIdle: 25 * time.Millisecond})
	w.run(time.Second)
	begun := len(w.log)
	w.run(time.Second)
	polls := 0
	for _, c := range w.log[begun:] {
		if _, ok := c.(Poll); ok {
			polls++
		}
	}
	if polls < 38 || polls > 42 {
		t.Errorf("%d polls in an idle second", polls)
	}
	w.step(Woken{})
	if len(w.calls) != 1 {
		t.Errorf("woken: %v", w.calls)
	}
}

func TestAWakeDuringAPollIsNotLost(t *testing.T) {
	w := newWorld(t, Config{MaxIdle: time.Hour})
	w.run(time.Second)
	w.step(Woken{})
	poll := w.calls[0].(Poll)
	page, err := w.store.Poll(t.Context(), poll.Query)
	if err != nil {
		t.Fatal(err)
	}
	w.store.add("k", "a") // after the snapshot
	w.step(Woken{})
	w.calls = nil
	w.step(Polled{Query: poll.Query, Page: page})
	if len(w.calls) != 1 {
		t.Errorf("after the poll: %v", w.calls)
	}
}

func TestOneBatchIsInFlightPerDestinationAndTheNextPageIsReadMeanwhile(t *testing.T) {
	w := newWorld(t, Config{BatchRows: 5})
	for i := range 30 {
		w.store.add(fmt.Sprint("k", i), "a")
	}
	w.callAll()
	if len(w.pubs) != 1 {
		t.Fatalf("%d batches in flight", len(w.pubs))
	}
	if n := w.m.Stats(w.now).Pending; n != 15 {
		t.Errorf("%d rows in memory, want the batch and two more", n)
	}
}

func TestAcknowledgementsThatArriveDuringACommitGoIntoTheNextOne(t *testing.T) {
	w := newWorld(t, Config{BatchRows: 2})
	for i := range 6 {
		w.store.add(fmt.Sprint("k", i), fmt.Sprint("topic", i%2))
	}
	w.callAll()
	for len(w.pubs) > 0 {
		w.answer(0)
	}
	w.callAll()
	sent := map[int64]int{}
	for _, f := range w.store.commits {
		for _, s := range f.Sent {
			sent[s.ID]++
		}
	}
	if len(sent) != 6 {
		t.Errorf("committed %v", sent)
	}
	for id, n := range sent {
		if n != 1 {
			t.Errorf("id %d committed %d times", id, n)
		}
	}
	w.wantSound(t)
}

func TestAHoleAboveTheLastRowOfACutPageIsNotConfirmed(t *testing.T) {
	w := newWorld(t, Config{BatchRows: 2, HoleAge: time.Second})
	w.run(time.Second)
	m := w.m
	m.main.cursor = 9
	m.main.unseen = []hole{{id: 3, born: w.now, round: 1}, {id: 8, born: w.now, round: 1}}
	m.rounds.last, m.rounds.cleared = 1, 1
	w.now = w.now.Add(2 * time.Second)
	w.calls = nil
	m.asked = [kinds]bool{}
	m.leadAt, m.ctl.due = w.now.Add(time.Hour), w.now.Add(time.Hour)
	m.lease.Expires = w.now.Add(time.Hour)
	w.step(Woken{})
	q := w.calls[0].(Poll).Query
	w.calls = nil
	row := func(id int64) Row {
		return Row{ID: id, Event: &settle.Event{ID: fmt.Sprint("e", id), AggregateID: "k"}}
	}
	w.step(Polled{Query: q, Page: Page{Rows: []Row{row(5), row(6)}, Epoch: m.lease.Epoch, Number: m.flush.number}})
	if len(m.main.unseen) != 1 || m.main.unseen[0].id != 8 {
		t.Errorf("unseen %+v, want 8 only", m.main.unseen)
	}
}
