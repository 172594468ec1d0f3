package relay

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

func always(text string) func(int) string { return func(int) string { return text } }

// The second topic's first rows are taken in a look that has left rows of the
// first one: what follows of it in the same look must stay in the table.
func TestALookTakesNoMoreForADeadBrokerThanItMayHold(t *testing.T) {
	w := newWorld(t, twoBrokers())
	archive := w.others["archive"]
	archive.refuse = refuseAll
	topic := func(i int) string { return []string{"a", "b"}[min(i/8, 1)] }
	ids := w.backlog(400, always("audit.seen"), topic, func(i int) string { return fmt.Sprint("k", i%7) })
	for range 100 {
		w.run(100 * time.Millisecond)
		if n := w.m.Stats(w.now).Pending; n > 2*3*4 { // of each topic two batches, and a page
			t.Fatalf("%d rows are in memory", n)
		}
	}
	archive.refuse = nil
	w.run(time.Minute)
	got := archive.firsts()
	b := slices.DeleteFunc(slices.Clone(got), func(id string) bool { return slices.Contains(ids[:8], id) })
	if len(got) != len(ids) || !slices.Equal(b, ids[8:]) {
		t.Errorf("the broker has %d of %d events; those of the second topic: %v", len(got), len(ids), b)
	}
	w.wantSound(t)
}

func TestTheBacklogGoesBeforeTheLogWhenItsBrokerWasDown(t *testing.T) {
	for name, hold := range map[string]func(*world) (release func()){
		"dead": func(w *world) func() {
			w.others["archive"].refuse = refuseAll
			return func() { w.others["archive"].refuse = nil }
		},
		"paused": func(w *world) func() {
			w.store.control(func(c *Controls) { c.Rows = append(c.Rows, settle.Control{Kind: "topic", Name: "a@archive"}) })
			return func() { w.store.control(func(c *Controls) { c.Rows = nil }) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, twoBrokers())
			release := hold(w)
			want := w.backlog(60, always("audit.seen"), always("a"), always("k"))
			for range 20 {
				want = append(want, w.addTyped("audit.seen", "k", "a").Event.ID)
				w.addTyped("order.created", "k", "a")
			}
			w.run(time.Minute)
			if got := len(w.broker.log); got != 20 {
				t.Errorf("the other broker has %d of 20 events", got)
			}
			w.kill()
			w.run(time.Minute)
			release()
			w.run(time.Minute)
			w.wantAt(t, "archive", want...)
			if got := w.others["archive"].log; len(got) != len(want) {
				t.Errorf("%d messages for %d events", len(got), len(want))
			}
			if w.m.Stats(w.now).Behind != 0 || len(w.store.check.Readers[0].Routed) != 0 {
				t.Error("the broker is level again, and still reads for itself")
			}
		})
	}
}
