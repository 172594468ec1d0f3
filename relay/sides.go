package relay

import (
	"slices"
	"time"

	"github.com/settlemq/settle"
)

// sideTables is what is known of rows outside the log: of each table one page
// at a time is in memory, and the next is read when that one's end is
// committed, so that no row is in hand twice.
type sideTables struct {
	delayed, extra sideTable
	turn           int
}

type sideTable struct {
	side Side
	// pending: rows may be there (t_outbox_extra); next: when the first row may
	// be read, zero for never (t_outbox_delayed).
	pending bool
	next    time.Time
	// first is true while the table goes before the log: it had rows when this
	// life began.
	first bool
	// probing: what it has waits for readers to look for what they have not seen
	// below their cursors, and they may.
	probing bool
	// after is where a look at the table goes on that has left rows behind; it
	// began then, and took is whether it has found anything to do.
	after int64
	began time.Time
	took  bool
	// idle counts looks in a row that found nothing to do.
	idle int
	// flush that must be committed before the next page is read.
	flush int64
}

func (m *Machine) loadSides(s State) {
	m.sides.delayed.side, m.sides.extra.side = SideDelayed, SideExtra
	m.sides.delayed.next = s.NextDelayed
	m.sides.extra.pending, m.sides.extra.first = s.ExtraPending, s.ExtraPending
}

func (s *sideTables) of(from Origin) *sideTable {
	if from == FromDelayed {
		return &s.delayed
	}
	return &s.extra
}

// done ends a row's stay in memory: flush records what became of it.
func (s *sideTables) done(d *destination, from Origin, flush int64, now time.Time) {
	t := s.of(from)
	t.flush = flush
	if d.inHand[t.side]--; d.inHand[t.side] == 0 && from == FromDelayed && d.withheld {
		d.withheld, t.next = false, now
	}
}

// letGo leaves a row in its table, to be read again.
func (s *sideTables) letGo(d *destination, from Origin, now time.Time) {
	t := s.of(from)
	d.inHand[t.side]--
	t.pending, t.next, t.after, t.idle = true, now, 0, 0
}

// released looks again for rows that were held back with their destination.
func (s *sideTables) released(now time.Time) {
	s.extra.pending, s.extra.next, s.extra.after, s.extra.idle = true, now, 0, 0
	s.delayed.next = now
}

// listed looks for rows that a person may have listed to be sent again.
func (s *sideTables) listed() { s.extra.pending, s.extra.next, s.extra.after = true, time.Time{}, 0 }

// isDelayed reports whether the row's time is far enough ahead to put it aside.
func (m *Machine) isDelayed(it *item) bool {
	return it.from != FromDelayed && it.row.Event != nil && !it.row.Event.NotBefore.IsZero() &&
		it.row.Event.NotBefore.Sub(m.now) >= m.cfg.DelayAhead
}

func (m *Machine) delay(d *destination, it *item) {
	e := it.row.Event
	m.flush.Delay = append(m.flush.Delay, Delay{
		ID: it.row.ID, EventID: e.ID, Destination: d.name, Key: it.key(), From: it.from, Due: e.NotBefore, Share: m.shareOf(d, it),
	})
	m.stats.Delayed++
	m.left(d, it)
	t := &m.sides.delayed
	t.flush = m.flush.seq + 1
	if t.next.IsZero() || e.NotBefore.Before(t.next) {
		t.next = e.NotBefore
	}
}

// planSides reads one side table at a time, in turn.
func (m *Machine) planSides() {
	if m.asked[askSide] || m.ctl.relayPaused || m.flush.heavy(m.cfg) {
		return
	}
	s := &m.sides
	for i := range 3 {
		k := (s.turn + i) % 3
		var q SideQuery
		ok := false
		switch k {
		case 0:
			q, ok = m.queryTable(&s.delayed)
		case 1:
			q, ok = m.queryTable(&s.extra)
		default:
			q, ok = m.queryParked()
		}
		if ok {
			s.turn = k + 1
			m.ask(askSide, ReadSide{Query: q})
			return
		}
	}
}

func (m *Machine) queryTable(t *sideTable) (SideQuery, bool) {
	if t.flush > m.flush.committed || t.side == SideExtra && !t.pending || t.side == SideDelayed && t.next.IsZero() {
		return SideQuery{}, false
	}
	if !m.reached(t.next) || m.awaitsHand(t.side) {
		return SideQuery{}, false
	}
	q := SideQuery{Side: t.side, Now: m.now, MaxRows: m.cfg.BatchRows, MaxBytes: m.cfg.BatchBytes}
	m.withhold(&q, t)
	t.pending, t.next = false, time.Time{}
	return q, true
}

// awaitsHand reports whether rows of a side table are in hand that keep its next
// page from being read. Where there are several brokers, rows for one that does
// not answer, or is slow, keep only their like.
func (m *Machine) awaitsHand(side Side) bool {
	for _, d := range m.dests {
		if d.inHand[side] > 0 && (!m.severalBrokers() || d.failures == 0 && !m.reached(d.handAt.Add(slowAfter))) {
			return true
		}
	}
	return false
}

func (m *Machine) severalBrokers() bool { return len(m.cfg.Brokers) > 0 && m.routing.used() }

// withhold names whose rows are not to be returned. A row of t_outbox_extra is
// known by its topic only: where there are routes the whole table is looked
// through instead.
func (m *Machine) withhold(q *SideQuery, t *sideTable) {
	if q.Side == SideExtra && m.routing.used() {
		m.look(q, t)
		return
	}
	for _, d := range m.dests {
		if d.held || d.inHand[q.Side] > 0 || q.Side == SideExtra && d.later && !m.readerOf(d).probed {
			q.Held = append(q.Held, d.name)
			d.withheld = d.withheld || q.Side == SideDelayed && !d.held
		}
	}
}

func (m *Machine) readerOf(d *destination) *reader {
	if d.reader != nil {
		return d.reader
	}
	return &m.main
}

// queryParked asks for the rows of a key whose head is due: for the head alone
// until it was taken once. While a trial is gathered it asks for keys that may
// join it.
func (m *Machine) queryParked() (SideQuery, bool) {
	t := &m.sus.trial
	if t.closed {
		return SideQuery{}, false
	}
	for _, d := range m.dests {
		if t.d != nil && t.d != d || d.held || !m.reached(d.until) || len(d.drain) >= m.cfg.BatchRows {
			continue
		}
		pk := m.nextDue(d)
		if pk == nil {
			continue
		}
		pk.state, pk.read = parkedReading, pk.flush
		if pk.flush > m.flush.committed {
			pk.read = -1 // rows are joining: what is read can't be all
		}
		q := SideQuery{Side: SideParked, Destination: d.name, Key: pk.key, Now: m.now, MaxRows: 1, MaxBytes: m.cfg.BatchBytes}
		if pk.good {
			q.MaxRows = m.cfg.BatchRows
		}
		return q, true
	}
	return SideQuery{}, false
}

func (m *Machine) sideFailed(q SideQuery) {
	switch q.Side {
	case SideParked:
		d := m.destination(q.Destination)
		if pk := d.keys[q.Key]; pk != nil {
			pk.state, pk.due = parkedIdle, m.storeAt
			m.schedule(d, pk)
		}
	case SideDelayed:
		m.sides.delayed.next = m.storeAt
	default:
		m.sides.extra.pending = true
	}
}

func (m *Machine) sideLoaded(in SideLoaded) {
	if !m.answered(askSide) {
		return
	}
	m.storeAnswered()
	switch in.Query.Side {
	case SideParked:
		m.parkedLoaded(in)
	case SideDelayed:
		m.delayedLoaded(in)
	default:
		if m.routing.used() {
			m.looked(in)
		} else {
			m.extraLoaded(in)
		}
	}
}

// delayedLoaded sends rows that came due, behind what was read by now.
func (m *Machine) delayedLoaded(in SideLoaded) {
	t, p := &m.sides.delayed, in.Page
	next := p.Next
	if p.More {
		next = m.now
	}
	if t.next.IsZero() || !next.IsZero() && next.Before(t.next) {
		t.next = next
	}
	for _, row := range p.Rows {
		to := m.destinationsOf(&row, FromDelayed)
		row.Owed = owedTo(&row, to)
		for _, d := range to {
			if row.Owed != nil && slices.Contains(in.Query.Held, d.name) {
				continue // its part stays in the table
			}
			m.inHand(d, SideDelayed)
			m.enqueue(d, item{row: row, from: FromDelayed, order: max(m.readerOf(d).cursor, d.lastOrder())})
		}
	}
}

func (m *Machine) inHand(d *destination, side Side) {
	d.inHand[side]++
	d.handAt = m.now
}

func (d *destination) lastOrder() int64 {
	if len(d.queue) > d.head {
		return d.queue[len(d.queue)-1].order
	}
	return 0
}

// extraLoaded sends backlog, late rows and resends in id order. A row with
// unread ids before it waits: one of them may be an earlier one of its key.
func (m *Machine) extraLoaded(in SideLoaded) {
	t, p := &m.sides.extra, in.Page
	if len(p.Rows) == 0 {
		m.tookNothing(t)
		for _, d := range m.dests {
			d.stayOwed(slices.Contains(in.Query.Held, d.name))
			t.pending = t.pending || d.later
			d.later = false
		}
		t.next = m.now.Add(m.cfg.MaxIdle)
		return
	}
	t.pending, t.next = true, time.Time{}
	for _, d := range m.dests {
		d.later = d.later && !m.readerOf(d).probed // it may have looked meanwhile
	}
	taken := 0
	for _, row := range p.Rows {
		to := m.destinationsOf(&row, FromExtra)
		row.Owed = owedTo(&row, to)
		for _, d := range to {
			if d.later || m.readerOf(d).mayFindBefore(row.ID) {
				d.later = true
				continue
			}
			taken++
			m.inHand(d, SideExtra)
			m.enqueue(d, item{row: row, from: FromExtra, order: row.ID})
		}
	}
	if t.probing = false; taken == 0 {
		m.tookNothing(t)
		t.next = m.now.Add(m.cfg.MaxIdle)
	}
}

// parkedLoaded drains a key from its head. No row and no change meanwhile
// means that the key is free.
func (m *Machine) parkedLoaded(in SideLoaded) {
	d := m.destination(in.Query.Destination)
	pk := d.keys[in.Query.Key]
	if pk == nil || pk.state != parkedReading {
		return
	}
	pk.state = parkedIdle
	if len(in.Page.Rows) == 0 {
		if pk.flush == pk.read {
			m.unpark(d, pk)
		} else {
			m.schedule(d, pk)
		}
		return
	}
	for i, row := range in.Page.Rows {
		if !m.drainRow(d, pk, row, i == 0) {
			break
		}
	}
	switch {
	case pk.inHand > 0 && pk.state == parkedIdle:
		pk.state = parkedSending
		if pk.good {
			pk.rounds++
		}
		if pk.rounds > chaseAfter {
			m.chase = touchedKey{d, pk}
		}
	case pk.state == parkedIdle:
		m.schedule(d, pk)
	}
}

// drainRow takes one parked row in hand. It returns false when those behind it
// must wait.
func (m *Machine) drainRow(d *destination, pk *parkedKey, row Row, head bool) bool {
	it := item{row: row, from: FromParked, parkedAs: pk.key, order: row.ID}
	it.weight = it.size()
	f := failure{attempts: row.Attempts}
	switch {
	case m.skips(row):
		m.skip(d, &it)
		m.touch(d, pk)
		return true
	case !head && (row.Gone || row.Defect != "" || row.Event == nil || row.Suspect != (pk.state == parkedTrial)):
		return false
	case row.Gone:
		f.class, f.cause = settle.ClassRowDeleted, causeGone
	case row.Defect != "" || row.Event == nil:
		f.class, f.cause = settle.ClassInvalid, row.Defect
	case row.Suspect || pk.doubt:
		return m.joinTrial(d, pk, it, head)
	default:
		pk.inHand++
		d.drain = append(d.drain, it)
		return true
	}
	m.die(d, pk, &it, f)
	return false
}

func (m *Machine) unpark(d *destination, pk *parkedKey) {
	m.setDead(pk, false)
	delete(d.keys, pk.key)
	delete(m.ownTries, parkedName{d.name, pk.key})
	m.parked--
}

// chaseAfter is how many pages of one key are drained before reading new rows
// waits for it: a key with steady traffic would never be free otherwise.
const chaseAfter = 16

// chased reports whether reading must wait for a parked key to run dry.
func (m *Machine) chased() bool {
	d, pk := m.chase.d, m.chase.pk
	if pk == nil {
		return false
	}
	if d.keys[pk.key] != pk || pk.dead || !pk.good || pk.rounds == 0 || d.held || d.failures > 0 {
		m.chase = touchedKey{}
		return false
	}
	return true
}
