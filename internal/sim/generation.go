package sim

import (
	"time"

	"github.com/settlemq/settle/relay"
)

// newGeneration ends some runs with a table that was made anew under the
// relays: its ids begin at 1 again, while the checkpoints speak of the old
// ones. Whoever leads must stop, and send and skip nothing.
func (w *plain) newGeneration() {
	cursor := int64(0)
	for _, l := range w.outbox.active().lanes {
		cursor = max(cursor, l.newest().Readers[0].Cursor)
	}
	if !w.chance(0.1) || cursor == 0 {
		return
	}
	for _, r := range w.relays {
		r.alive, r.held, r.waiting = false, true, nil
	}
	for until := w.Since() + 2*time.Second; w.Since() < until && w.Step(); {
	}
	w.halts = 0
	w.hist.note(w.Since(), w.outbox.name, "is made anew")
	w.probes.hit("table made anew")
	w.outbox.rows = w.outbox.rows[:1:1]
	w.outbox.pool = nil
	var sent []*outboxRow
	for range w.from(1, int(cursor)+3) {
		tx := w.outbox.begin(false)
		sent = append(sent, w.outbox.insert(tx, w.newEvent(tx, "key-a"), false))
		w.outbox.commit(tx)
	}
	living := 0
	for _, r := range w.relays {
		if !r.lane.ended {
			living++
			r.born()
		}
	}
	for until := w.Since() + 10*relay.LongLife*w.LeaseTTL; w.halts < living && w.Step(); {
		if w.Since() > until {
			w.fail("a new generation stops the relay", "%d of %d relays have stopped after %v", w.halts, living, 10*relay.LongLife*w.LeaseTTL)
		}
	}
	for _, r := range sent {
		if r.sent > 0 {
			w.fail("a new generation stops the relay", "row %d (%s) of the new table was sent", r.id, r.event.ID)
		}
	}
}
