package relay

import "time"

// lookShare is how many times longer than a look through t_outbox_extra that
// found only rows which must wait the pause behind it is.
const lookShare = 10

// beginLook begins to look through t_outbox_extra, from its first row.
func (m *Machine) beginLook(t *sideTable) {
	t.began, t.took = m.now, false
	for _, d := range m.dests {
		d.passed = d.held || d.inHand[SideExtra] > 0
	}
}

// looked sends rows of t_outbox_extra, in id order, to destinations that can
// take them. Others are left in the table and the look goes on behind them, so
// that a broker which takes nothing keeps nothing from the rest; of one
// destination nothing is taken behind a row that was left.
func (m *Machine) looked(in SideLoaded) {
	t, rows := &m.sides.extra, in.Page.Rows
	anew := in.Query.After > 0 && t.after == 0 // a row may be sent that was left
	left := false
	for _, row := range rows {
		d := m.destinationOf(&row, FromExtra)
		d.passed = d.passed || d.held || m.readerOf(d).mayFindBefore(row.ID)
		if d.passed {
			left = true
			continue
		}
		t.took = true
		m.inHand(d, SideExtra)
		m.enqueue(d, item{row: row, from: FromExtra, order: row.ID})
	}
	switch {
	case anew:
		t.pending, t.next = true, time.Time{}
	case in.Page.More:
		if left || t.after > 0 {
			t.after = rows[len(rows)-1].ID
		}
		t.pending, t.next = true, time.Time{}
	default:
		m.endLook(t, left || t.after > 0, len(rows) == 0)
	}
}

// endLook plans the next one. What must wait is looked for again later and later:
// whatever lets it go says so.
func (m *Machine) endLook(t *sideTable, left, empty bool) {
	t.after = 0
	t.pending = t.pending || left || !empty
	if t.took {
		t.idle = 0
		return
	}
	t.idle++
	t.first = false
	t.next = m.now.Add(max(backoff(t.idle, m.cfg.MaxIdle, time.Second), lookShare*m.now.Sub(t.began)))
}
