package relay

import (
	"cmp"
	"slices"
	"time"
	"unicode/utf8"
)

// reader is a cursor over the log in memory.
type reader struct {
	cursor      int64
	cursorEvent string
	// unseen are ids at or below the cursor that no poll has returned: rows of
	// open or rolled-back transactions, and what a reader left behind when it
	// gave its rows up. Sorted. They are read again with every poll.
	unseen []hole
	// probed is true once a poll has covered all of unseen; asking while such a
	// poll is under way.
	probed, asking bool
	pollAt         time.Time
	// foundAt is when it last found a row, or was told that there is one.
	foundAt time.Time
}

// hole is an unseen id, since when it is one, and the round of evidence that
// it belongs to (0: none yet).
type hole struct {
	id    int64
	born  time.Time
	round int64
}

func (r *reader) find(id int64) (int, bool) {
	return slices.BinarySearchFunc(r.unseen, id, func(h hole, id int64) int { return cmp.Compare(h.id, id) })
}

// remove takes sorted ids out of the unseen.
func (r *reader) remove(ids ...int64) {
	if len(ids) == 1 {
		if i, ok := r.find(ids[0]); ok {
			r.unseen = slices.Delete(r.unseen, i, i+1)
		}
		return
	}
	r.unseen = slices.DeleteFunc(r.unseen, func(h hole) bool {
		for len(ids) > 0 && ids[0] < h.id {
			ids = ids[1:]
		}
		return len(ids) > 0 && ids[0] == h.id
	})
}

// add puts ids back among the unseen.
func (r *reader) add(ids []int64, now time.Time) {
	for _, id := range ids {
		r.unseen = append(r.unseen, hole{id: id, born: now})
	}
	slices.SortFunc(r.unseen, func(a, b hole) int { return cmp.Compare(a.id, b.id) })
	r.probed, r.asking = false, false
}

// planPoll reads the next page, for the main reader and those that have fallen
// behind in turn.
func (m *Machine) planPoll() {
	if m.asked[askPoll] || m.ctl.relayPaused || m.sides.extra.first && !m.sides.extra.probing || m.parked >= m.cfg.MaxParkedKeys ||
		m.flush.heavy(m.cfg) || m.chased() {
		return
	}
	n := len(m.dests) + 1
	for i := range n {
		k := (m.turn + i) % n
		if k == 0 && m.mainMayPoll() {
			m.turn = 1
			m.poll("", &m.main, m.ceiling())
			return
		}
		if k > 0 && m.mayPoll(m.dests[k-1]) {
			m.turn = k + 1
			m.poll(m.dests[k-1].name, m.dests[k-1].reader, m.upTo(m.dests[k-1]))
			return
		}
	}
}

func (m *Machine) poll(destination string, r *reader, upTo int64) {
	q := PollQuery{After: r.cursor, UpTo: upTo, MaxRows: m.cfg.BatchRows, MaxBytes: m.cfg.BatchBytes}
	if len(r.unseen) > 0 {
		q.Holes = make([]int64, len(r.unseen))
		for i, h := range r.unseen {
			q.Holes[i] = h.id
		}
	}
	r.asking = true
	m.rounds.polled, m.rounds.polledAt = m.rounds.cleared, m.now
	m.flush.polled, m.flush.before = m.flush.number, m.flush.seq
	if destination == "" {
		m.woken = false
	}
	m.ask(askPoll, Poll{Destination: destination, Query: q})
}

// ceiling keeps the main reader from reading above its cursor while it
// remembers as many holes as it may; it still looks for those. A lane that is
// to end reads no further than it must.
func (m *Machine) ceiling() int64 {
	if m.sides.extra.first || len(m.main.unseen) >= m.cfg.MaxHoles {
		return m.main.cursor
	}
	if m.ctl.divided {
		return m.ctl.barrier
	}
	return 0
}

// slowAfter is how long a full destination may keep the main reader from
// reading on for others before it must read for itself.
const slowAfter = 250 * time.Millisecond

// mainMayPoll lets the main reader read on unless a destination it serves has
// all it can hold. One that is held, or slow while others flow, is given a
// reader of its own; with several brokers one that is slow always is.
func (m *Machine) mainMayPoll() bool {
	blocked := false
	for _, d := range m.dests {
		if d.reader != nil {
			continue
		}
		if !m.full(d) {
			d.fullSince = time.Time{}
			continue
		}
		if d.held || m.limited(d) {
			m.detach(d)
			continue
		}
		if d.fullSince.IsZero() {
			d.fullSince = m.now
		}
		if (m.otherFlows(d) || len(m.cfg.Brokers) > 0) && m.reached(d.fullSince.Add(slowAfter)) {
			m.detach(d)
			continue
		}
		blocked = true
	}
	return !blocked && (!m.sides.extra.first || m.main.mustProbe()) && m.reached(m.main.pollAt)
}

// otherFlows reports whether another destination is served by the main reader
// and takes what it gets.
func (m *Machine) otherFlows(d *destination) bool {
	for _, o := range m.dests {
		if o != d && o.reader == nil && !o.held && o.failures == 0 && !m.full(o) {
			return true
		}
	}
	return false
}

// polled takes a page. Rows at or below the cursor are holes that have shown
// up; ids between rows above it become holes; ids above the last row are
// nothing yet.
func (m *Machine) polled(in Polled) {
	if !m.answered(askPoll) || m.phase != leading {
		return
	}
	m.storeAnswered()
	p := in.Page
	if p.Epoch != m.lease.Epoch || p.Number < m.flush.polled || p.Number > m.flush.issued {
		m.forget(loading) // not the checkpoint we wrote last: see rule C
		return
	}
	if p.Controls != m.ctl.version {
		m.ctl.due = m.now
	}
	r := &m.main
	if in.Destination != "" {
		if r = m.destination(in.Destination).reader; r == nil {
			return
		}
	}
	if !r.asking {
		// The reader has given rows up since it asked. What came after them must
		// not go before they are read again.
		return
	}
	if p.NotDurable && len(p.Rows) > 0 {
		m.flush.awaitDurable()
	}
	before := len(r.unseen)
	m.readHoles(r, in)
	m.readAbove(r, in)
	if r == &m.main && p.Complete && (in.Query.UpTo == 0 || in.Query.UpTo > in.Query.After) {
		m.sus.readToTheEnd(p.Rows, r.cursor)
	}
	r.probed, r.asking = r.probed || covered(in), false
	m.pace(r, len(p.Rows) > 0, before)
	m.rejoin()
}

// covered reports whether a page tells of every hole that was asked for.
func covered(in Polled) bool {
	holes, rows := in.Query.Holes, in.Page.Rows
	return in.Page.Complete || len(holes) == 0 || len(rows) > 0 && rows[len(rows)-1].ID >= holes[len(holes)-1]
}

// pace asks for the next poll: at once after a page with rows, later and later
// after empty ones.
func (m *Machine) pace(r *reader, found bool, holes int) {
	floor := time.Duration(0)
	if holes > 2000 {
		floor = 20 * time.Millisecond // each poll looks them all up
	}
	if r == &m.main && m.woken {
		found, m.woken = true, false
	}
	if found || r.foundAt.IsZero() {
		r.foundAt = m.now
	}
	wait := time.Duration(0)
	if !found {
		wait = min(m.cfg.MaxIdle, max(time.Millisecond, m.now.Sub(r.foundAt)/idleShare))
	}
	r.pollAt = m.now.Add(max(wait, floor))
}

// idleShare is how much shorter than the time without rows the wait for the
// next poll is: what comes after a silence is found within a fifth of it.
const idleShare = 5

// readHoles takes the rows at or below the cursor and looks at the holes that
// the page lacks.
func (m *Machine) readHoles(r *reader, in Polled) {
	if len(r.unseen) == 0 {
		return
	}
	rows := in.Page.Rows
	left := r.unseen[:0:0]
	seen := make([]Row, 0, min(len(rows), len(r.unseen)))
	var cold []int64
	i := 0
	for _, h := range r.unseen {
		for i < len(rows) && rows[i].ID < h.id {
			i++
		}
		switch {
		case i < len(rows) && rows[i].ID == h.id:
			seen = append(seen, rows[i])
		case m.isCold(h, in):
			cold = append(cold, h.id)
		default:
			left = append(left, h)
		}
	}
	r.unseen = left
	for _, row := range seen {
		m.receive(r, row, true)
	}
	m.markCold(cold)
}

// readAbove takes the rows above the cursor and moves it.
func (m *Machine) readAbove(r *reader, in Polled) {
	for _, row := range in.Page.Rows {
		if row.ID <= in.Query.After || row.ID <= r.cursor {
			continue
		}
		if room := int64(max(0, m.cfg.MaxHoles-len(r.unseen))); r == &m.main && row.ID-r.cursor-1 > room {
			// A jump too wide to remember is passed piece by piece.
			m.openBetween(r, r.cursor, r.cursor+room+1)
			r.cursor, r.cursorEvent = r.cursor+room, ""
			return
		}
		m.openBetween(r, r.cursor, row.ID)
		r.cursor, r.cursorEvent = row.ID, eventID(row)
		m.receive(r, row, false)
	}
	if in.Page.Complete && in.Query.UpTo > r.cursor {
		m.readTo(r, in.Query.UpTo)
	}
}

// readTo moves a reader to the end of the range that it has read.
func (m *Machine) readTo(r *reader, upTo int64) {
	if r == &m.main {
		upTo = min(upTo, r.cursor+int64(max(0, m.cfg.MaxHoles-len(r.unseen))))
	}
	if upTo == r.cursor {
		return
	}
	m.openBetween(r, r.cursor, upTo+1)
	r.cursor, r.cursorEvent = upTo, ""
	if r != &m.main && r.cursor == m.main.cursor {
		r.cursorEvent = m.main.cursorEvent
	}
}

// openBetween adds the ids between two, both excluded, to what r has not seen.
// A reader that follows the main one takes only what that one has not seen
// either: the rest was seen and is done, or is cold.
func (m *Machine) openBetween(r *reader, low, high int64) {
	if high <= low+1 {
		return
	}
	if r == &m.main {
		for id := low + 1; id < high; id++ {
			r.unseen = append(r.unseen, hole{id: id, born: m.now})
		}
		return
	}
	for i, _ := m.main.find(low + 1); i < len(m.main.unseen) && m.main.unseen[i].id < high; i++ {
		r.unseen = append(r.unseen, m.main.unseen[i])
	}
}

// receive routes a row. wasHole tells that its id was passed by the cursor
// before.
func (m *Machine) receive(r *reader, row Row, wasHole bool) {
	if row.Elsewhere {
		if wasHole {
			m.eachReader(func(o *reader) { o.remove(row.ID) })
		}
		m.flush.pass(m.now)
		return // seen is all that it must be here
	}
	to := m.destinationsOf(&row, FromLog)
	if m.routing.fans {
		m.share(r, row, to, wasHole)
		return
	}
	d := to[0]
	if r != &m.main {
		if d.reader == r {
			// It has one destination: nobody else need look for it.
			m.eachReader(func(o *reader) { o.remove(row.ID) })
			m.enqueue(d, item{row: row, order: row.ID})
		}
		return
	}
	if wasHole {
		for _, o := range m.dests {
			if o.reader != nil && o != d {
				o.reader.remove(row.ID)
			}
		}
	}
	if d.reader == nil {
		m.enqueue(d, item{row: row, order: row.ID})
	}
}

// eventID is what the cursor remembers of a row: nothing of one whose id would
// not come back from the checkpoint as it is.
func eventID(row Row) string {
	if row.Event == nil || !utf8.ValidString(row.Event.ID) {
		return ""
	}
	return row.Event.ID
}
