package consumer

import (
	"slices"

	"github.com/settlemq/settle"
)

func (w *world) checkDisjoint(c Apply) {
	for _, o := range w.pending {
		for _, a := range o.Work.Items {
			for _, b := range c.Work.Items {
				if keyOf(&a.Record) == keyOf(&b.Record) {
					w.t.Fatalf("key %s is in two works in flight", keyOf(&a.Record))
				}
			}
		}
		for _, a := range o.Work.Floors {
			for _, b := range c.Work.Floors {
				if a.Partition.Number == b.Partition.Number {
					w.t.Fatalf("partition %d is in two works in flight", a.Partition.Number)
				}
			}
		}
	}
	if handles := count(c.Work.Items, settle.IntentHandle); c.Alone && (handles != 1 || len(c.Work.Items) != 1) {
		w.t.Fatalf("a handler with outside effects runs with others: %v", c.Work.Items)
	}
	if len(c.Work.Items) > w.cfg.BatchRows {
		w.t.Fatalf("a work has %d items", len(c.Work.Items))
	}
}

func count(items []settle.Item, intent settle.Intent) (n int) {
	for _, it := range items {
		if it.Intent == intent {
			n++
		}
	}
	return n
}

// checkAnswer holds the machine to "acknowledged only after durable".
func (w *world) checkAnswer(c Complete) {
	d, ok := w.open[c.ID]
	if !ok {
		w.t.Fatalf("delivery %d is answered, but it does not wait", c.ID)
	}
	delete(w.open, c.ID)
	if c.Err != nil {
		return
	}
	for _, r := range d.Records {
		if _, known := w.in.log[r.Event.ID]; !known && r.Event.Type != "unknown" {
			w.t.Fatalf("%s is acknowledged, but the database does not know it", r.Event.ID)
		}
		w.given[d.Partition.Number] = max(w.given[d.Partition.Number], r.Position)
	}
}

func (w *world) checkBounds() {
	if n := len(w.m.queue); n > len(w.logs) {
		w.t.Fatalf("the machine keeps %d deliveries", n)
	}
	if n := len(w.m.spare) + len(w.m.flight); n > w.cfg.Concurrency+2 {
		w.t.Fatalf("the machine keeps %d works", n)
	}
	if n := len(w.m.due.items); n > w.cfg.BatchRows {
		w.t.Fatalf("the machine keeps %d due events", n)
	}
}

// checkEffects: once, and in order per key unless others may pass.
func (w *world) checkEffects() {
	seen, last := map[string]bool{}, map[string]int{}
	for _, id := range w.in.effects {
		if seen[id] {
			w.t.Fatalf("%s took effect twice: %v", id, w.in.effects)
		}
		seen[id] = true
		p, i := w.find(id)
		key := w.logs[p][i].AggregateID
		if before, ok := last[key]; ok && before > i && !w.cfg.Pass {
			w.t.Fatalf("%s took effect after a later event of its key: %v", id, w.in.effects)
		}
		last[key] = i
		for _, e := range w.logs[p][:i] { // nothing of the key was passed over
			if e.AggregateID == key && !seen[e.ID] && e.Type != "unknown" && !w.cfg.Pass {
				w.t.Fatalf("%s took effect before %s", id, e.ID)
			}
		}
	}
}

func (w *world) find(id string) (part, index int) {
	for p, log := range w.logs {
		for i, e := range log {
			if e.ID == id {
				return p, i
			}
		}
	}
	w.t.Fatalf("effect of unknown event %s", id)
	return 0, 0
}

// settled: every record is done, and what is left in the retry store is dead
// or waits behind something dead.
func (w *world) settled() bool {
	for p, log := range w.logs {
		if w.in.floors[partName{"topic", p}].Position < int64(len(log)) {
			return false
		}
	}
	dead := map[string]bool{}
	for _, r := range w.in.rows {
		key := keyOf(&r.item.Record)
		if r.dead {
			dead[key] = true
		} else if w.cfg.Pass || !dead[key] {
			return false
		}
	}
	return len(w.open) == 0
}

// checkEnd: nothing is missing, and nobody died without the attempts for it.
func (w *world) checkEnd() {
	for _, log := range w.logs {
		for _, e := range log {
			if v, known := w.in.log[e.ID]; !known && e.Type != "unknown" {
				w.t.Fatalf("%s is lost", e.ID)
			} else if known && v == settle.VerdictApplied && !slices.Contains(w.in.effects, e.ID) {
				w.t.Fatalf("%s is applied without effect", e.ID)
			}
		}
	}
}
