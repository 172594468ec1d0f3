package relay

import (
	"slices"
	"time"
)

// gathering is the next flush, and what is known of those before it.
type gathering struct {
	Flush
	// seq is the newest flush issued, committed the newest one committed.
	seq, committed int64
	// number is the newest checkpoint committed, issued the newest one sent to
	// the store, polled the committed one when the poll under way began. A page
	// must show one between polled and issued.
	number, issued, polled int64
	// barrier is the flush that must be committed before anything is published,
	// before the newest one that was issued before the poll under way.
	barrier, before int64
	// force asks for a commit although there is nothing but a checkpoint.
	force bool
	// passed is when the first thing happened that no checkpoint tells of, because
	// there was nothing to record: a row of another lane was seen, or a destination
	// came level; zero if there is none.
	passed time.Time
	// touched are parked keys that this flush changes, underway those of the
	// flush that is being committed.
	touched, underway []touchedKey
}

type touchedKey struct {
	d  *destination
	pk *parkedKey
}

// heavy reports whether so much waits to be recorded that reading must wait.
func (g *gathering) heavy(c Config) bool {
	return len(g.Park)+len(g.Delay)+len(g.Skip)+len(g.Sent) >= 8*c.BatchRows
}

// passEvery is how long it may be that what was passed is in no checkpoint while
// there is nothing else to commit: retention, and whoever takes over, go by
// checkpoints.
const passEvery = time.Second

func (g *gathering) pass(now time.Time) {
	if g.passed.IsZero() {
		g.passed = now
	}
}

// awaitDurable lets nothing be published before a commit that begins after the
// poll which was just answered: only such a one makes its rows durable. The store
// gets one command after the other, so a commit that was issued behind the poll
// is one.
func (g *gathering) awaitDurable() {
	if g.seq > g.before && g.committed < g.seq {
		g.barrier = max(g.barrier, g.seq)
		return
	}
	g.barrier, g.force = g.seq+1, true
}

// planCommit writes what was gathered, with a checkpoint that passes it: one
// commit at a time, and what is acknowledged meanwhile goes into the next.
func (m *Machine) planCommit() {
	g := &m.flush
	if m.asked[askCommit] || !g.force && g.Empty() && (g.passed.IsZero() || !m.reached(g.passed.Add(passEvery))) {
		return
	}
	f := g.Flush
	f.Checkpoint = Checkpoint{Number: g.number + 1, Readers: m.readersNow()}
	g.seq++
	g.issued = f.Checkpoint.Number
	g.Flush, g.force, g.passed = Flush{}, false, time.Time{}
	g.underway, g.touched = g.touched, g.underway[:0]
	m.ask(askCommit, Commit{ID: g.seq, Lease: m.lease, Flush: f})
}

// readersNow names every id at or below a cursor that is neither acknowledged
// nor in the flush: nothing is passed by range.
func (m *Machine) readersNow() []Reader {
	readers := make([]Reader, 1, 2)
	main := openIDs(&m.main, nil)
	for _, d := range m.dests {
		if d.reader == nil {
			if own := m.apart(d); own != nil {
				readers = append(readers, *own)
			} else {
				main = d.appendOpen(main)
			}
			continue
		}
		readers = append(readers, Reader{
			Destination: d.name, Cursor: d.reader.cursor, CursorEvent: d.reader.cursorEvent,
			Open: sorted(d.appendOpen(openIDs(d.reader, nil))), Topics: slices.Clone(d.topics),
		})
	}
	readers[0] = Reader{Cursor: m.main.cursor, CursorEvent: m.main.cursorEvent, Open: sorted(main)}
	if !m.routing.used() {
		return readers
	}
	m.routing.prune(doneUpTo(readers))
	return fold(readers, m.routing.lists)
}

func openIDs(r *reader, ids []int64) []int64 {
	ids = slices.Grow(ids, len(r.unseen))
	for _, h := range r.unseen {
		ids = append(ids, h.id)
	}
	return ids
}

// appendOpen adds the ids of log rows that d has in memory.
func (d *destination) appendOpen(ids []int64) []int64 {
	ids = slices.Grow(ids, len(d.flight.items)+len(d.queue)-d.head)
	for i := range d.flight.items {
		if d.flight.items[i].from == FromLog {
			ids = append(ids, d.flight.items[i].row.ID)
		}
	}
	for i := d.head; i < len(d.queue); i++ {
		if d.queue[i].from == FromLog {
			ids = append(ids, d.queue[i].row.ID)
		}
	}
	return ids
}

func sorted(ids []int64) []int64 {
	if !slices.IsSorted(ids) {
		slices.Sort(ids)
	}
	return ids
}

func (m *Machine) committed(in Committed) {
	g := &m.flush
	if !m.answered(askCommit) {
		return
	}
	m.storeAnswered()
	g.committed, g.number = in.ID, g.issued
	if m.phase == opening {
		m.phase = leading
	}
	for _, t := range g.underway {
		if t.d.keys[t.pk.key] == t.pk {
			m.settled(t.d, t.pk)
		}
	}
	clear(g.underway)
	g.underway = g.underway[:0]
}

// settled goes on with a parked key whose rows are as the machine knows them.
func (m *Machine) settled(d *destination, pk *parkedKey) {
	if pk.head <= m.flush.committed {
		m.schedule(d, pk)
	}
}
