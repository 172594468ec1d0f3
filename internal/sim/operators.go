package sim

import (
	"time"

	"github.com/settlemq/settle"
)

// operate is a person doing something while the system runs.
func (w *plain) operate() {
	switch w.IntN(8) {
	case 0:
		w.pauseSomething("key-" + string(rune('a'+w.IntN(w.Keys))))
	case 1:
		w.skipSomething()
	case 6:
		w.deleteSomething()
	case 7:
		w.resendSomething()
	case 2, 3:
		for _, d := range w.outbox.dead {
			if d.open && w.chance(0.5) {
				w.decideDeath(w.outbox, d)
				return
			}
		}
	default:
		for _, x := range w.inboxes {
			for _, l := range x.letters {
				if l.open && w.chance(0.5) {
					w.answer(x, l, w.chance(0.3))
					return
				}
			}
		}
	}
}

// pauseSomething pauses for a while.
func (w *World) pauseSomething(key string) {
	d := w.between(50*time.Millisecond, time.Second)
	o := w.someOutbox()
	if w.chance(0.5) {
		c := settle.Control{Kind: "relay"}
		switch w.IntN(4) {
		case 0, 1:
			c = settle.Control{Kind: "topic", Name: w.broker.topics[w.IntN(len(w.broker.topics))].name}
		case 2:
			c = settle.Control{Kind: "key", Name: key}
		}
		w.probes.hit("relay control " + c.Kind)
		o.Order(c, true)
		w.After(d, func() { o.Order(c, false) })
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

// divide changes the number of lanes. Each process runs a relay for every lane
// from some time on; those of old lanes end by themselves.
func (w *World) divide(n int) {
	o := w.someOutbox()
	o.Divide(n)
	for _, l := range o.lanes[len(o.lanes)-n:] {
		for i := range w.Relays {
			w.addRelay(o, l, i)
		}
	}
}

// skipSomething asks the relay to pass an event that has not been sent.
func (w *plain) skipSomething() {
	for i := len(w.eventIDs) - 1; i >= 0 && i > len(w.eventIDs)-6; i-- {
		if r := w.outbox.byEvent[w.eventIDs[i]]; r.state == rowVisible && r.durable && r.sent == 0 && w.chance(0.3) {
			w.outbox.SkipEvent(r.event.ID)
			return
		}
	}
}

// resendSomething asks the relay to send an event again.
func (w *plain) resendSomething() {
	for i := len(w.eventIDs) - 1; i >= 0 && i > len(w.eventIDs)-20; i-- {
		r := w.outbox.byEvent[w.eventIDs[i]]
		if r.state == rowVisible && r.sent > 0 && !r.done && w.outbox.settled(r) && w.chance(0.3) {
			w.outbox.Resend(r)
			return
		}
	}
}

// deleteSomething is somebody deleting an outbox row that is still needed.
func (w *plain) deleteSomething() {
	for _, p := range w.outbox.parked {
		if r := w.outbox.visible(p.ID); r != nil && r.durable && w.chance(0.3) {
			w.probes.hit("parked row deleted by hand")
			w.hist.note(w.Since(), "operator", "deletes", r.id)
			r.state, r.passed = rowDeleted, true
			return
		}
	}
}

// decideDeath is a person's answer to a dead letter of the relay.
func (w *World) decideDeath(o *outboxModel, d *deadRow) {
	r := o.row(d.ID)
	f := w.fates[r.event.ID]
	if f.defective || r.state != rowVisible || w.story.discards() {
		o.Discard(d)
		return
	}
	f.cured = f.cured || w.Phase == phaseCalm || w.chance(0.7)
	o.Replay(d)
}

func (w *plain) decide(x *inboxModel, l *letter) { w.answer(x, l, w.chance(0.1)) }

// answer lets the event of a dead letter go, or cures it and handles it again.
func (w *plain) answer(x *inboxModel, l *letter, discard bool) {
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
		for _, o := range w.outboxes {
			for _, d := range o.dead {
				if d.open {
					w.decideDeath(o, d)
				}
			}
		}
		for _, x := range w.inboxes {
			for _, l := range x.letters {
				if l.open {
					w.story.decide(x, l)
				}
			}
		}
		w.repairLater()
	})
}
