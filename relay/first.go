package relay

// Rows that are in t_outbox_extra when a life begins, the backlog of an adopted
// table among them, go before the log. This file is about when they can't: the
// log must not wait for ever, nor overtake them.

// tookNothing is called when no row of t_outbox_extra can be sent now. If some
// wait until it is known what goes before them, readers look below their cursors.
// Otherwise the log begins, but for destinations that may be owed rows.
func (m *Machine) tookNothing(t *sideTable) {
	if !t.first {
		return
	}
	t.probing = false
	for _, d := range m.dests {
		if d.owed = d.mayBeOwed(); d.owed && d.reader == nil {
			m.detach(d)
		}
		t.probing = t.probing || !d.owed && d.later && !m.readerOf(d).probed
	}
	t.first = t.probing
}

// mayBeOwed reports whether rows of t_outbox_extra are left that d can't take, or
// may be, or are in hand.
func (d *destination) mayBeOwed() bool { return d.held || d.left || d.inHand[SideExtra] > 0 }

// stayOwed lets d have its log when the whole table was looked through and
// nothing of it is left. withheld: its rows were not among those looked at.
func (d *destination) stayOwed(withheld bool) {
	d.owed = d.owed && (withheld || d.later || d.mayBeOwed())
}

// mustProbe reports whether there is something below the cursor to look for.
func (r *reader) mustProbe() bool { return !r.probed && len(r.unseen) > 0 }

// upTo is how far d's own reader reads: no further than it has while the log of d
// waits.
func (m *Machine) upTo(d *destination) int64 {
	if m.sides.extra.first || d.owed {
		return d.reader.cursor
	}
	return m.main.cursor
}

// mayRead reports whether there is something that d's own reader may look for:
// while the log of d waits, what rows that are left wait for.
func (m *Machine) mayRead(d *destination) bool {
	switch {
	case d.owed:
		return d.later && !d.left && d.reader.mustProbe()
	case m.sides.extra.first:
		return d.reader.mustProbe()
	}
	return true
}

// mayFindBefore reports whether a reader has not looked yet what lies before id.
func (r *reader) mayFindBefore(id int64) bool {
	return !r.probed && len(r.unseen) > 0 && r.unseen[0].id < id
}
