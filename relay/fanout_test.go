package relay

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// fanned is a config by which events of type both.* go to both brokers, and those
// of type audit.* to archive only.
func fanned() Config {
	cfg := twoBrokers()
	cfg.SuspectAfter = 1000 // what is killed here is not killed by events
	cfg.Routes = append(cfg.Routes, Route{EventType: "both.*", Also: true}, Route{EventType: "both.*", Broker: "archive"})
	return cfg
}

// wantOnce is that no broker has got anything twice.
func (w *world) wantOnce(t *testing.T) {
	t.Helper()
	w.others[""] = w.broker
	for name, b := range w.others {
		if got, first := len(b.log), len(b.firsts()); got != first {
			t.Errorf("broker %q has %d events in %d messages", name, first, got)
		}
	}
	delete(w.others, "")
}

func TestAnEventGoesToEachOfItsDestinations(t *testing.T) {
	w := newWorld(t, fanned())
	w.addTyped("both.a", "k", "t")
	w.addTyped("order.created", "k", "t")
	w.addTyped("audit.seen", "k", "t")
	w.addTyped("both.b", "l", "u")
	w.run(time.Second)
	w.wantAt(t, "", "e1", "e2", "e4")
	w.wantAt(t, "archive", "e1", "e3", "e4")
	w.wantOnce(t)
	readers := w.store.check.Readers
	if len(readers) != 1 || len(readers[0].Open)+len(readers[0].Routed) > 0 {
		t.Errorf("all is done, and the checkpoint says %+v", readers)
	}
	for _, id := range []int64{1, 2, 3, 4} {
		if !w.store.finished[id] {
			t.Errorf("each has event %d, and no flush says so", id)
		}
	}
}

func TestABrokerThatIsDownHoldsItsOwnCopiesOnly(t *testing.T) {
	for _, few := range []bool{true, false} {
		t.Run(fmt.Sprint("as few events as memory holds: ", few), func(t *testing.T) {
			w := newWorld(t, fanned())
			archive := w.others["archive"]
			archive.refuse = refuseAll
			var ids []string
			for hour := range 5 {
				for i := range 40 {
					if !few || i == 0 {
						ids = append(ids, w.addTyped("both.a", fmt.Sprint("k", i%3), "t").Event.ID)
					}
				}
				w.run(time.Hour)
				w.wantAt(t, "", ids...)
				if s := w.m.Stats(w.now); s.Pending > 4*4 {
					t.Fatalf("in hour %d %d rows are in memory", hour, s.Pending)
				}
				w.kill() // twice: what an own reader has must last
				w.run(time.Minute)
				w.kill()
				w.run(time.Minute)
			}
			for id := range w.store.finished {
				t.Errorf("event %d counts as done, and a broker does not have it", id)
			}
			archive.refuse = nil
			w.run(time.Minute)
			w.wantAt(t, "", ids...)
			w.wantAt(t, "archive", ids...)
			w.wantOnce(t)
			if s := w.m.Stats(w.now); s.Behind != 0 || len(w.store.finished) != len(ids) {
				t.Errorf("%d destinations read for themselves, and %d of %d events are said to be done", s.Behind, len(w.store.finished), len(ids))
			}
		})
	}
}

func TestAHoleThatBecomesARowGoesToEachDestinationOnce(t *testing.T) {
	w := newWorld(t, fanned())
	archive := w.others["archive"]
	w.store.owners = func(Evidence) Evidence { return Evidence{Known: true} }
	archive.refuse = refuseAll
	first := w.store.allocate("h", "t")
	var ids []string
	for range 30 {
		ids = append(ids, w.addTyped("both.a", "k", "t").Event.ID)
	}
	second := w.store.allocate("i", "t")
	ids = append(ids, w.addTyped("both.a", "k", "t").Event.ID)
	w.run(time.Minute)
	show := func(id int64) {
		w.store.rows[id].row.Event.Type, w.store.rows[id].visible = "both.late", true
		ids = append(ids, w.store.rows[id].row.Event.ID)
	}
	show(first) // the broker that is down has a reader of its own
	w.run(time.Minute)
	w.wantAt(t, "", ids...)
	archive.refuse = nil
	w.run(time.Minute)
	show(second) // both are level
	w.run(time.Minute)
	w.kill()
	w.run(time.Minute)
	w.wantAt(t, "", ids...)
	if got := archive.firsts(); len(got) != len(ids) {
		t.Errorf("the second broker has %v of %v", got, ids)
	}
	w.wantOnce(t)
}

// A broker that reads for itself may find a row before the main reader does.
func TestARowThatOneReaderFindsFirstGoesToEachDestinationOnce(t *testing.T) {
	for _, dies := range []bool{false, true} {
		t.Run(fmt.Sprint("the process dies then: ", dies), func(t *testing.T) {
			w := newWorld(t, fanned())
			archive := w.others["archive"]
			w.store.owners = func(Evidence) Evidence { return Evidence{Known: true} }
			archive.refuse = refuseAll
			hole := w.store.allocate("h", "t")
			w.addTyped("both.a", "k", "t")
			w.addTyped("both.a", "k", "t")
			w.run(time.Minute)
			w.kill()
			archive.refuse = nil
			for row := w.store.rows[hole]; !row.visible; {
				if len(w.calls) == 0 {
					w.now = w.wake
					w.step(Tick{})
				}
				if poll, ok := w.calls[0].(Poll); ok && poll.Destination == "t@archive" {
					row.row.Event.Type, row.visible = "both.late", true
				}
				w.call()
			}
			d := w.m.destination("t@archive")
			if d.reader != nil || !slices.Equal(d.took, []int64{hole}) {
				t.Fatalf("it is level, reads with %+v and took %v", d.reader, d.took)
			}
			if dies {
				for len(w.pubs) > 0 {
					w.answer(0)
				}
				for len(w.calls) > 0 && len(archive.log) < 3 || w.m.asked[askCommit] || !w.m.flush.Empty() {
					w.call()
				}
				w.kill()
			}
			w.run(time.Minute)
			w.wantAt(t, "", "e2", "e3", "e1")
			if got := archive.firsts(); len(got) != 3 {
				t.Errorf("the second broker has %v", got)
			}
			w.wantOnce(t)
		})
	}
}

func TestWhatADestinationTookIsNotReadAgainWhenItFallsBehind(t *testing.T) {
	m := NewMachine(fanned())
	d := m.destination("t@archive")
	m.main.cursor, m.main.unseen, d.took = 9, []hole{{id: 3}, {id: 5}, {id: 7}}, []int64{3, 7}
	m.detach(d)
	if len(d.reader.unseen) != 1 || d.reader.unseen[0].id != 5 || d.took != nil {
		t.Errorf("it looks for %v, and took %v", d.reader.unseen, d.took)
	}
}

func TestParkedKeysAreOfOneDestination(t *testing.T) {
	w := newWorld(t, fanned())
	archive := w.others["archive"]
	archive.refuse = refuseEvents(settle.ScopeRecord, "e1")
	w.addTyped("both.a", "k", "t")
	w.addTyped("both.a", "k", "t")
	w.addTyped("both.a", "l", "t")
	w.run(2 * time.Second)
	w.wantAt(t, "", "e1", "e2", "e3")
	w.wantAt(t, "archive", "e3")
	if w.store.finished[1] || w.store.finished[2] || !w.store.finished[3] {
		t.Errorf("said to be done are %v", w.store.finished)
	}
	archive.refuse = nil
	w.run(time.Minute)
	w.wantAt(t, "archive", "e3", "e1", "e2")
	w.wantOnce(t)
	if len(w.store.finished) != 3 {
		t.Errorf("said to be done are %v", w.store.finished)
	}
}

func TestADelayedEventIsDueAtEachDestination(t *testing.T) {
	w := newWorld(t, fanned())
	archive := w.others["archive"]
	var ids []string
	for range 30 {
		r := w.addTyped("both.a", "k", "t")
		r.Event.NotBefore = w.now.Add(time.Minute)
		ids = append(ids, r.Event.ID)
	}
	w.run(30 * time.Second)
	archive.refuse = refuseAll
	w.run(time.Minute)
	w.wantAt(t, "", ids...)
	if s := w.m.Stats(w.now); s.Pending > 4*4 {
		t.Errorf("%d rows of %d are in memory", s.Pending, len(ids))
	}
	w.kill()
	w.run(time.Minute)
	w.wantAt(t, "", ids...)
	if len(w.store.delayed) != len(ids) || len(w.store.finished) > 0 {
		t.Errorf("%d of %d are still owed to the broker that is down, %d count as done", len(w.store.delayed), len(ids), len(w.store.finished))
	}
	archive.refuse = nil
	w.run(time.Minute)
	w.wantAt(t, "archive", ids...)
	w.wantAt(t, "", ids...)
	w.wantOnce(t)
	if len(w.store.delayed)+len(w.store.owedDelayed) > 0 || len(w.store.finished) != len(ids) {
		t.Errorf("left over: %v, owed to %v", w.store.delayed, w.store.owedDelayed)
	}
}

func TestALateRowIsDividedAmongItsDestinations(t *testing.T) {
	for _, down := range []string{"", "archive"} {
		t.Run("down is "+down, func(t *testing.T) {
			w := newWorld(t, fanned())
			w.others[""] = w.broker
			w.others[down].refuse = refuseAll
			var ids []string
			for range 30 {
				r := w.addTyped("both.a", "k", "t")
				w.store.extra[r.ID] = ""
				ids = append(ids, r.Event.ID)
			}
			w.store.check = Checkpoint{Number: 1, Readers: []Reader{{Cursor: 30}}}
			w.kill()
			ids = append(ids, w.addTyped("both.a", "k", "t").Event.ID)
			for range 3 {
				w.run(time.Minute)
				w.kill()
			}
			up := map[string]string{"": "archive", "archive": ""}[down]
			w.wantAt(t, up, ids...)
			if len(w.store.extra) != 30 || len(w.store.finished) > 0 {
				t.Errorf("%d of 30 rows are owed to the broker that is down, %d count as done", len(w.store.extra), len(w.store.finished))
			}
			w.others[down].refuse = nil
			w.run(time.Minute)
			w.wantAt(t, up, ids...)
			w.wantAt(t, down, ids...)
			w.wantOnce(t)
			if len(w.store.extra)+len(w.store.owedExtra) > 0 {
				t.Errorf("left over: %v, owed to %v", w.store.extra, w.store.owedExtra)
			}
		})
	}
}

func TestASkipIsOverWhenEachDestinationHasPassedTheEvent(t *testing.T) {
	w := newWorld(t, fanned())
	archive := w.others["archive"]
	w.broker.refuse = refuseAll
	archive.refuse = refuseAll
	for range 30 {
		w.addTyped("both.a", "k", "t")
	}
	w.run(time.Minute)
	w.store.control(func(c *Controls) { c.Skips = []string{"e20"} })
	w.broker.refuse = nil
	w.run(time.Minute)
	if len(w.store.controls.Skips) != 1 {
		t.Fatal("one destination has passed the event, and the skip is over")
	}
	w.kill()
	archive.refuse = nil
	w.run(time.Minute)
	for _, name := range []string{"", "archive"} {
		b := w.broker
		if name != "" {
			b = w.others[name]
		}
		if got := b.firsts(); len(got) != 29 || slices.Contains(got, "e20") {
			t.Errorf("broker %q has %v", name, got)
		}
	}
	if len(w.store.controls.Skips) != 0 || !w.store.skipped[20] {
		t.Error("each has passed the event, and the skip is not over")
	}
	w.wantSound(t)
}

func TestWhatABrokerIsOwedOfSharedEventsKeepsItsWayWhenRoutesChange(t *testing.T) {
	w := newWorld(t, fanned())
	archive := w.others["archive"]
	archive.refuse = refuseAll
	var ids []string
	for range 60 {
		ids = append(ids, w.addTyped("both.a", "k", "t").Event.ID)
	}
	w.run(time.Minute)
	w.cfg.Routes = nil
	w.kill()
	here := append(slices.Clone(ids), w.addTyped("both.a", "k", "t").Event.ID)
	w.run(time.Minute)
	w.cfg.Routes = fanned().Routes
	w.kill()
	last := w.addTyped("both.a", "k", "t").Event.ID
	w.run(time.Minute)
	archive.refuse = nil
	w.run(time.Minute)
	w.wantAt(t, "", append(here, last)...)
	w.wantAt(t, "archive", append(ids, last)...)
	w.wantOnce(t)
}

// Processes with different routes that take over from each other while nothing
// is read leave no list behind for each time.
func TestListsOfRoutesThatHaveDecidedNothingAreForgotten(t *testing.T) {
	w := newWorld(t, fanned())
	w.others["archive"].refuse = refuseAll
	for range 20 {
		w.addTyped("both.a", "k", "t")
	}
	w.run(time.Minute)
	for i := range 20 {
		w.cfg.Routes = [][]Route{nil, fanned().Routes}[i%2]
		w.kill()
		w.run(time.Minute)
	}
	if lists := w.store.check.Readers[0].Routing; len(lists) > 3 {
		t.Errorf("%d lists are recorded", len(lists))
	}
	w.others["archive"].refuse = nil
	w.run(time.Minute)
	if got := w.others["archive"].firsts(); len(got) != 20 {
		t.Errorf("the second broker has %v", got)
	}
	w.wantOnce(t)
	w.wantSound(t)
}

func TestAnEventOfOneDestinationCostsNothingMore(t *testing.T) {
	m := NewMachine(Config{})
	it := item{row: Row{ID: 1, Event: &settle.Event{ID: "e"}}}
	if s := m.shareOf(m.destination("t"), &it); s != nil {
		t.Errorf("its share is %+v", s)
	}
	if n := testing.AllocsPerRun(100, func() { m.destinationsOf(&it.row, FromLog) }); n > 0 {
		t.Errorf("to find its destination allocates %v times", n)
	}
}
