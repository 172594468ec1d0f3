package relay

import (
	"slices"
	"time"
)

// This file is about destinations that fall behind: each gets a reader of its own,
// and gives it up when it is level with the main one.

// detach gives d a reader of its own at the main reader's cursor, with all
// that the main one has not seen. What it holds in memory it keeps while it
// can send, and otherwise gives up as planHeld says.
func (m *Machine) detach(d *destination) {
	d.fullSince = time.Time{}
	d.reader = &reader{
		cursor: m.main.cursor, cursorEvent: m.main.cursorEvent,
		unseen: slices.Clone(m.main.unseen), probed: m.main.probed, pollAt: m.now,
	}
	d.reader.remove(d.took...)
	d.took = nil
	if d.held {
		m.drop(d)
	}
}

func (m *Machine) mayPoll(d *destination) bool {
	return d.reader != nil && !d.held && m.mayRead(d) && !m.full(d) && !(m.limited(d) && d.waiting() > 0) && m.reached(d.reader.pollAt)
}

// rejoin gives readers up that are level with the main one and have nothing
// open that it lacks.
func (m *Machine) rejoin() {
	for _, d := range m.dests {
		r := d.reader
		if r != nil && !d.held && !d.owed && r.cursor == m.main.cursor && !m.full(d) && m.main.covers(r) {
			d.reader = nil
			if m.routing.fans {
				d.took = m.main.beyond(r)
			}
			if m.routing.used() {
				m.flush.pass(m.now) // a topic may have come level without a row of it to send
			}
		}
	}
}

// covers reports whether every unseen id of r is one of o too.
func (o *reader) covers(r *reader) bool {
	i := 0
	for _, h := range r.unseen {
		for i < len(o.unseen) && o.unseen[i].id < h.id {
			i++
		}
		if i == len(o.unseen) || o.unseen[i].id != h.id {
			return false
		}
	}
	return true
}
