package relay

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// twoBrokers is a config by which events of type audit.* go to archive.
func twoBrokers() Config {
	return Config{
		BatchRows: 4, Routes: []Route{{EventType: "audit.*", Broker: "archive"}},
		Brokers: map[string]settle.Publisher{"archive": &fakeBroker{}},
	}
}

// addTyped appends an event of a type.
func (w *world) addTyped(kind, key, topic string) *Row {
	r := w.store.add(key, topic)
	r.Event.Type = kind
	return r
}

func refuseAll(settle.Message) error { return errNoAnswer }

// wantAt is what a broker has got, first copies in order.
func (w *world) wantAt(t *testing.T, broker string, want ...string) {
	t.Helper()
	b := w.broker
	if broker != "" {
		b = w.others[broker]
	}
	if got := b.firsts(); !slices.Equal(got, want) {
		t.Errorf("broker %q has %v, want %v", broker, got, want)
	}
	w.wantSound(t)
}

func TestEventsGoToTheBrokerOfTheirRouteAndToNoOther(t *testing.T) {
	cfg := twoBrokers()
	cfg.Routes = append(cfg.Routes, Route{Topic: "old", As: "new"})
	w := newWorld(t, cfg)
	for i := range 6 {
		w.addTyped([]string{"order.created", "audit.seen"}[i%2], "k", "t")
	}
	w.addTyped("order.created", "k", "old")
	w.run(time.Second)
	w.wantAt(t, "archive", "e2", "e4", "e6")
	i := slices.IndexFunc(w.broker.log, func(m settle.Message) bool { return m.Event.ID == "e7" })
	if at := w.broker.log[i]; at.Event.Topic != "new" || w.store.rows[7].row.Event.Topic != "old" {
		t.Errorf("the event is at topic %s, and its row says %s", at.Event.Topic, w.store.rows[7].row.Event.Topic)
	}
	for _, f := range w.store.commits {
		for _, s := range f.Sent {
			if want := map[int64]string{2: "t@archive", 7: "new"}[s.ID]; want != "" && (s.Destination != want || s.At.Topic != want) {
				t.Errorf("row %d is recorded at %s, topic %s; want %s", s.ID, s.Destination, s.At.Topic, want)
			}
		}
	}
}

func TestADeadBrokerHoldsItsOwnDestinationsOnly(t *testing.T) {
	for _, first := range []string{"audit.seen", "order.created"} {
		t.Run("the first events are "+first, func(t *testing.T) {
			w := newWorld(t, twoBrokers())
			archive := w.others["archive"]
			archive.refuse = refuseAll
			var here, there []string
			add := func(kind string) {
				r := w.addTyped(kind, fmt.Sprint("k", len(here)%3), "t")
				if kind == "audit.seen" {
					there = append(there, r.Event.ID)
				} else {
					here = append(here, r.Event.ID)
				}
			}
			for range 50 {
				add(first)
			}
			for minute := range 5 {
				for range 20 {
					add("order.created")
					add("audit.seen")
				}
				w.run(time.Minute)
				w.wantAt(t, "", here...)
				if s := w.m.Stats(w.now); s.Behind != 1 || s.Pending > 4*4 {
					t.Fatalf("in minute %d %d destinations read for themselves, and %d rows are in memory", minute, s.Behind, s.Pending)
				}
			}
			w.kill()
			w.run(20 * time.Second)
			if len(archive.log) > 0 {
				t.Fatal("the dead broker has taken something")
			}
			archive.refuse = nil
			w.run(time.Minute)
			w.wantAt(t, "", here...)
			w.wantAt(t, "archive", there...)
			if got := len(w.broker.log) + len(archive.log); got != len(here)+len(there) {
				t.Errorf("%d messages for %d events", got, len(here)+len(there))
			}
			if s := w.m.Stats(w.now); s.Behind != 0 {
				t.Error("the broker is level again, and still reads for itself")
			}
		})
	}
}

// While one broker is dead the checkpoint must tell programs and queries that
// know topics only what is done everywhere.
func TestWhatATopicHasReachedIsTheLeastOfItsDestinations(t *testing.T) {
	w := newWorld(t, twoBrokers())
	w.others["archive"].refuse = refuseAll
	for range 20 {
		w.addTyped("audit.seen", "k", "t")
		w.addTyped("order.created", "k", "t")
		w.addTyped("order.created", "k", "other")
	}
	w.run(time.Minute)
	readers := w.store.check.Readers
	if len(readers) != 2 || len(readers[0].Routed) != 1 || readers[0].Routed[0].Destination != "t@archive" {
		t.Fatalf("readers are %+v", readers)
	}
	low := readers[0].Routed[0].Cursor
	if main, shown := readers[0], readers[1]; main.Cursor != 60 || low >= 60 || shown.Destination != "t" || shown.Cursor != low || !slices.Contains(shown.Open, 1) {
		t.Errorf("the topic is shown as %+v, the main reader has read up to %d and the one behind up to %d", shown, main.Cursor, low)
	}
	w.wantSound(t)
}

// hang is a broker that answers nothing: its batches stay unanswered until
// their time has passed.
func TestBatchesThatADeadBrokerDoesNotAnswerTakeNoRoomFromOthers(t *testing.T) {
	w := newWorld(t, twoBrokers())
	topics := maxFlying + 8
	for i := range topics {
		w.addTyped("audit.seen", "k", fmt.Sprint("t", i))
	}
	w.callAll()
	hung := len(w.pubs)
	for range 3 {
		w.addTyped("order.created", "k", "t")
	}
	w.step(Woken{})
	w.callAll()
	if len(w.pubs) <= hung || w.pubs[len(w.pubs)-1].Broker != "" {
		t.Fatalf("%d batches are unanswered and nothing is sent to the broker that answers", hung)
	}
	w.answer(len(w.pubs) - 1)
	w.wantAt(t, "", fmt.Sprint("e", topics+1), fmt.Sprint("e", topics+2), fmt.Sprint("e", topics+3))
}

func TestWhatIsInASideTableKeepsItsDestinationWhenRoutesChange(t *testing.T) {
	cfg := twoBrokers()
	w := newWorld(t, cfg)
	archive := w.others["archive"]
	archive.refuse = refuseEvents(settle.ScopeRecord, "e1")
	w.addTyped("audit.seen", "k", "t") // parked
	late := w.addTyped("audit.seen", "l", "t")
	late.Event.NotBefore = w.now.Add(time.Hour)
	w.run(time.Second)
	w.cfg.Routes = nil
	w.kill()
	archive.refuse = nil
	w.addTyped("audit.seen", "k", "t")
	w.run(2 * time.Hour)
	w.wantAt(t, "archive", "e1", "e2")
	w.wantAt(t, "", "e3")
}

func TestWhatABrokerIsOwedKeepsItsWayWhenRoutesChange(t *testing.T) {
	w := newWorld(t, twoBrokers())
	archive := w.others["archive"]
	archive.refuse = refuseAll
	var here, there []string
	for i := range 60 {
		if i%2 == 0 {
			there = append(there, w.addTyped("audit.seen", "k", "t").Event.ID)
		} else {
			here = append(here, w.addTyped("order.created", "k", "t").Event.ID)
		}
	}
	hole := w.store.allocate("h", "t") // commits when the routes have changed
	w.store.owners = func(Evidence) Evidence { return Evidence{Known: true} }
	w.addTyped("order.created", "k", "t")
	here = append(here, "e62")
	w.run(time.Minute)
	w.cfg.Routes = []Route{{EventType: "order.*", Broker: "archive"}} // the other way round
	w.kill()
	w.run(time.Second)
	w.store.rows[hole].row.Event.Type, w.store.rows[hole].visible = "audit.seen", true
	here = append(here, w.addTyped("audit.seen", "k", "t").Event.ID)
	w.run(time.Minute)
	w.wantAt(t, "", here...)
	archive.refuse = nil
	w.run(time.Minute)
	there = append(there, fmt.Sprint("e", hole), w.addTyped("order.created", "k", "t").Event.ID)
	w.run(time.Minute)
	w.wantAt(t, "archive", there...)
	w.wantAt(t, "", here...)
	if got := len(w.broker.log) + len(archive.log); got != len(here)+len(there) {
		t.Errorf("%d messages for %d events", got, len(here)+len(there))
	}
	if lists := w.store.check.Readers[0].Routing; len(lists) != 1 {
		t.Errorf("all is done, and %d lists of routes are remembered", len(lists))
	}
}

func TestWhatIsOwedToABrokerThatIsNotConfiguredWaits(t *testing.T) {
	w := newWorld(t, twoBrokers())
	archive := w.others["archive"]
	archive.refuse = refuseAll
	for range 20 {
		w.addTyped("audit.seen", "k", "t")
	}
	w.addTyped("order.created", "k", "t") // so that a checkpoint passes them
	w.run(time.Minute)
	w.cfg.Routes, w.cfg.Brokers = nil, nil
	w.kill()
	w.addTyped("audit.seen", "k", "t")
	w.run(time.Minute)
	w.wantAt(t, "", "e21", "e22")
	w.cfg = twoBrokers()
	w.cfg.Brokers["archive"] = archive
	archive.refuse = nil
	w.kill()
	w.run(time.Minute)
	if got := len(archive.firsts()); got != 20 || len(archive.log) != 20 {
		t.Errorf("the broker has %d of 20 events, in %d messages", got, len(archive.log))
	}
	w.wantAt(t, "", "e21", "e22")
}

// A program that knows no routes reads the checkpoint of one that does: it may
// send again, and must not pass anything.
func TestAProgramWithoutRoutesLosesNothingBesideOneThatHasThem(t *testing.T) {
	w := newWorld(t, twoBrokers())
	w.others["archive"].refuse = refuseAll
	for i := range 40 {
		w.addTyped([]string{"audit.seen", "order.created"}[i%2], "k", "t")
	}
	w.run(time.Minute)
	// What it does not know it does not read.
	for i := range w.store.check.Readers {
		r := &w.store.check.Readers[i]
		r.Routing, r.Routed, r.Topics = nil, nil, nil
	}
	w.cfg.Routes, w.cfg.Brokers = nil, nil
	w.kill()
	w.run(time.Minute)
	if got := len(w.broker.firsts()); got != 40 {
		t.Errorf("it has sent %d of 40 events", got)
	}
	w.wantSound(t)
}

func TestDelayedRowsForADeadBrokerKeepNoOthersWaiting(t *testing.T) {
	w := newWorld(t, twoBrokers())
	w.others["archive"].refuse = refuseAll
	due := w.now.Add(time.Minute)
	for range 20 {
		w.addTyped("audit.seen", "a", "t").Event.NotBefore = due
	}
	var here []string
	for range 20 {
		r := w.addTyped("order.created", "k", "t")
		r.Event.NotBefore = due
		here = append(here, r.Event.ID)
	}
	w.run(50 * time.Second)
	w.run(30 * time.Second)
	w.wantAt(t, "", here...)
	w.others["archive"].refuse = nil
	w.run(time.Minute)
	if got := w.others["archive"].firsts(); len(got) != 20 || !slices.IsSortedFunc(got, byNumber) {
		t.Errorf("the broker has %v", got)
	}
	w.wantSound(t)
}

func byNumber(a, b string) int { return len(a)*1000 + strings.Compare(a, b) - len(b)*1000 }

func TestLateRowsForADeadBrokerKeepNoOthersWaiting(t *testing.T) {
	w := newWorld(t, twoBrokers())
	archive := w.others["archive"]
	archive.refuse = refuseAll
	var here, there []string
	for i := range 60 {
		kind := "audit.seen"
		if i >= 30 && i%2 == 0 {
			kind = "order.created"
		}
		r := w.addTyped(kind, "k", "t")
		w.store.extra[r.ID] = ""
		if kind == "audit.seen" {
			there = append(there, r.Event.ID)
		} else {
			here = append(here, r.Event.ID)
		}
	}
	w.store.check = Checkpoint{Number: 1, Readers: []Reader{{Cursor: 60}}}
	w.kill()
	here = append(here, w.addTyped("order.created", "k", "t").Event.ID)
	w.run(time.Minute)
	w.wantAt(t, "", here...)
	reads := 0
	from := len(w.log)
	w.run(time.Minute)
	for _, c := range w.log[from:] {
		if r, ok := c.(ReadSide); ok && r.Query.Side == SideExtra {
			reads++
		}
	}
	if reads > 60*15+100 { // each second the 15 pages of the rest
		t.Errorf("the table of what must wait was read %d times in a minute", reads)
	}
	archive.refuse = nil
	w.run(time.Minute)
	w.wantAt(t, "archive", there...)
	w.wantAt(t, "", here...)
	if got := len(w.broker.log) + len(archive.log); got != len(here)+len(there) {
		t.Errorf("%d messages for %d events", got, len(here)+len(there))
	}
}
