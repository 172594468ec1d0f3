package sim

import (
	"time"

	"github.com/settlemq/settle"
)

// operate is a person doing something while the system runs.
func (w *World) operate() {
	switch w.IntN(7) {
	case 0:
		w.pauseSomething()
	case 1:
		w.skipSomething()
	case 6:
		w.deleteSomething()
	case 2, 3:
		for _, d := range w.outbox.dead {
			if d.open && w.chance(0.5) {
				w.decide(d)
				return
			}
		}
	default:
		for _, x := range w.inboxes {
			for _, l := range x.letters {
				if l.open && w.chance(0.5) {
					w.decideLetter(x, l, w.chance(0.3))
					return
				}
			}
		}
	}
}

// pauseSomething pauses for a while.
func (w *World) pauseSomething() {
	d := w.between(50*time.Millisecond, time.Second)
	key := "key-" + string(rune('a'+w.IntN(w.Keys)))
	if w.chance(0.5) {
		c := settle.Control{Kind: "relay"}
		switch w.IntN(4) {
		case 0, 1:
			c = settle.Control{Kind: "topic", Name: topicName(w.IntN(w.Topics))}
		case 2:
			c = settle.Control{Kind: "key", Name: key}
		}
		w.probes.hit("relay control " + c.Kind)
		w.outbox.Order(c, true)
		w.After(d, func() { w.outbox.Order(c, false) })
		return
	}
	x := w.inboxes[w.IntN(len(w.inboxes))]
	c := settle.Control{Kind: "group", Name: x.group.Name}
	if w.chance(0.5) {
		c = settle.Control{Kind: "key", Name: x.group.Name + "/" + key}
	}
	w.probes.hit("consumer control " + c.Kind)
	x.Order(c, true)
	w.After(d, func() { x.Order(c, false) })
}

// skipSomething asks the relay to pass an event that has not been sent.
func (w *World) skipSomething() {
	for i := len(w.eventIDs) - 1; i >= 0 && i > len(w.eventIDs)-6; i-- {
		if r := w.outbox.byEvent[w.eventIDs[i]]; r.state == rowVisible && r.durable && r.sent == 0 && w.chance(0.3) {
			w.outbox.SkipEvent(r.event.ID)
			return
		}
	}
}

// deleteSomething is somebody deleting an outbox row that is still needed.
func (w *World) deleteSomething() {
	for _, p := range w.outbox.parked {
		if r := w.outbox.visible(p.ID); r != nil && r.durable && w.chance(0.3) {
			w.probes.hit("parked row deleted by hand")
			w.hist.note(w.Since(), "operator", "deletes", r.id)
			r.state, r.passed = rowDeleted, true
			return
		}
	}
}

// decide is a person's answer to a dead letter of the relay.
func (w *World) decide(d *deadRow) {
	r := w.outbox.row(d.ID)
	f := w.fates[r.event.ID]
	if f.defective || r.state != rowVisible || w.chance(0.2) {
		w.outbox.Discard(d)
		return
	}
	f.cured = f.cured || w.Phase == phaseCalm || w.chance(0.7)
	w.outbox.Replay(d)
}

// decideLetter is a person's answer to a dead letter of a group.
func (w *World) decideLetter(x *inboxModel, l *letter, discard bool) {
	if l.record.Event == nil || discard {
		x.Discard(l)
		return
	}
	f := w.fates[l.eventID]
	f.cured = f.cured || w.Phase == phaseCalm || w.chance(0.7)
	x.Replay(l, true)
}

// repairLater goes through all dead letters once in a while until none is
// left, as people do.
func (w *World) repairLater() {
	w.After(500*time.Millisecond, func() {
		for _, d := range w.outbox.dead {
			if d.open {
				w.decide(d)
			}
		}
		for _, x := range w.inboxes {
			for _, l := range x.letters {
				if l.open {
					w.decideLetter(x, l, w.chance(0.1))
				}
			}
		}
		w.repairLater()
	})
}
