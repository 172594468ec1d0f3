package relay

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// backlog lists n rows as those of an adopted table are, and begins behind them.
// Ids in open have no row.
func (w *world) backlog(n int, kind func(int) string, topic func(int) string, key func(int) string, open ...int64) (ids []string) {
	for i := range n {
		r := w.addTyped(kind(i), key(i), topic(i))
		w.store.extra[r.ID] = ""
		ids = append(ids, r.Event.ID)
	}
	for i, id := range open {
		delete(w.store.extra, id)
		w.store.rows[id].visible = false
		ids = append(ids[:id-1-int64(i)], ids[id-int64(i):]...)
	}
	w.store.check = Checkpoint{Number: 1, Readers: []Reader{{Cursor: int64(n), Open: open}}}
	w.kill()
	return ids
}

func (w *world) pause(topics ...string) {
	w.store.control(func(c *Controls) {
		c.Rows = nil
		for _, topic := range topics {
			c.Rows = append(c.Rows, settle.Control{Kind: "topic", Name: topic})
		}
	})
}

func TestTheBacklogGoesBeforeTheLogWhenItsTopicWasPaused(t *testing.T) {
	w := newWorld(t, Config{BatchRows: 4})
	w.pause("a")
	want := w.backlog(60, always("x"), always("a"), always("k"))
	for range 20 {
		want = append(want, w.addTyped("x", "k", "a").Event.ID)
	}
	w.run(time.Minute)
	w.pause()
	w.run(time.Minute)
	w.wantSent(t, want...)
}

func TestTheBacklogGoesBeforeTheLogWhenAnIdAmongItHasNoRow(t *testing.T) {
	w := newWorld(t, Config{BatchRows: 4})
	want := w.backlog(60, always("x"), always("a"), always("k"), 10, 30)
	for range 20 {
		want = append(want, w.addTyped("x", "k", "a").Event.ID)
	}
	w.run(time.Minute)
	w.wantSent(t, want...)
}

// Whatever is paused, dead or killed meanwhile, and whichever ids have no row.
func TestOfEachKeyTheBacklogGoesBeforeTheLog(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		cfg := Config{BatchRows: 4}
		if seed%3 > 0 {
			cfg = twoBrokers()
		}
		w := newWorld(t, cfg)
		topic := func(int) string { return []string{"a", "b"}[rnd.IntN(2)] }
		key := func(int) string { return fmt.Sprint("k", rnd.IntN(3)) }
		kind := func(int) string { return []string{"order.created", "audit.seen"}[rnd.IntN(2)] }
		var open []int64
		for id := range int64(60) {
			if rnd.IntN(12) == 0 {
				open = append(open, id+1)
			}
		}
		disturb := func(some bool) {
			for _, b := range append([]*fakeBroker{w.broker}, w.others["archive"]) {
				if b != nil && rnd.IntN(2) == 0 {
					b.refuse = nil
					if some {
						b.refuse = refuseAll
					}
				}
			}
			w.pause([]string{"a", "b@archive", "a@archive"}[:rnd.IntN(4)]...)
		}
		disturb(true)
		n := len(w.backlog(60, kind, topic, key, open...))
		for range 8 {
			for i := range rnd.IntN(12) {
				w.addTyped(kind(i), key(i), topic(i))
				n++
			}
			w.run(time.Duration(1 + rnd.IntN(3_000_000_000)))
			if rnd.IntN(4) == 0 {
				w.kill()
			}
			disturb(rnd.IntN(2) == 0)
		}
		w.pause()
		w.broker.refuse = nil
		if b := w.others["archive"]; b != nil {
			b.refuse = nil
		}
		w.run(5 * time.Minute)
		for name, b := range map[string]*fakeBroker{"": w.broker, "archive": w.others["archive"]} {
			if b == nil {
				continue
			}
			n -= len(b.firsts())
			one := &world{store: w.store, broker: b}
			for _, wrong := range keyInversions(one) {
				t.Errorf("seed %d, broker %q: %s", seed, name, wrong)
			}
		}
		if n != 0 {
			t.Errorf("seed %d: %d events were not sent", seed, n)
		}
		w.wantSound(t)
		if t.Failed() {
			return
		}
	}
}
