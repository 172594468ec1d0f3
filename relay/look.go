package relay

import "time"

// lookShare is how many times longer than a look through t_outbox_extra that
// found only rows which must wait the pause behind it is.
const lookShare = 10

// look asks for the next page of a look through t_outbox_extra. A destination
// that does not send what it has in hand, or has as much as it may, gets no more
// in this look, however many pages it has.
func (m *Machine) look(q *SideQuery, t *sideTable) {
	first := t.after == 0
	if q.After = t.after; first {
		t.began, t.took = m.now, false
	}
	for _, d := range m.dests {
		if first {
			d.passed, d.left, d.later = false, false, false
		}
		stuck := d.inHand[SideExtra] > 0 && (first || d.failures > 0 || m.full(d))
		d.passed = d.passed || d.held || stuck
	}
}

// looked sends rows of t_outbox_extra, in id order, to destinations that can
// take them. Others are left in the table and the look goes on behind them, so
// that a broker which takes nothing keeps nothing from the rest; of one
// destination nothing is taken behind a row that was left.
func (m *Machine) looked(in SideLoaded) {
	t, rows := &m.sides.extra, in.Page.Rows
	if in.Query.After > 0 && t.after == 0 {
		// A row may be sent that was left, or is back in the table: it goes first.
		t.pending, t.next = true, time.Time{}
		return
	}
	left := false
	for _, row := range rows {
		to := m.destinationsOf(&row, FromExtra)
		row.Owed = owedTo(&row, to)
		for _, d := range to {
			early := m.readerOf(d).mayFindBefore(row.ID)
			d.passed = d.passed || d.held || early
			if d.passed {
				left, d.left, d.later = true, d.left || !early, d.later || early
				continue
			}
			t.took = true
			m.inHand(d, SideExtra)
			m.enqueue(d, item{row: row, from: FromExtra, order: row.ID})
		}
	}
	if !in.Page.More {
		m.endLook(t, left || t.after > 0, len(rows) == 0)
		return
	}
	if left || t.after > 0 {
		t.after = rows[len(rows)-1].ID
	}
	t.pending, t.next = true, time.Time{}
}

// endLook plans the next one. What must wait is looked for again later and later:
// whatever lets it go says so.
func (m *Machine) endLook(t *sideTable, left, empty bool) {
	t.after = 0
	t.pending = t.pending || left || !empty
	for _, d := range m.dests {
		d.stayOwed(false)
	}
	if t.took {
		t.idle, t.probing = 0, false
		return
	}
	t.idle++
	m.tookNothing(t)
	t.next = m.now.Add(max(backoff(t.idle, m.cfg.MaxIdle, time.Second), lookShare*m.now.Sub(t.began)))
}
