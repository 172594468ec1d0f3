package relay

import (
	"cmp"
	"slices"
)

// An event that goes to several destinations is taken by each as if it went there
// only: each has its own place in the log, its own parked keys and its own rest of
// a side table's row. This file is where one of them must know of the others.
//
// Of the ids up to the main reader's cursor, a destination which that one serves
// is still to take those that the main reader has not seen, but for what it took
// while it read for itself (destination.took), and those that it has in memory. A
// checkpoint says that of each by a reader of its own, so that one that waits for
// its broker does not have the others take again what they have.

// share hands a row to the destinations that the reader serves. Others, with
// readers of their own, come to it themselves; those to which it does not go need
// not look for it.
func (m *Machine) share(r *reader, row Row, to []*destination, wasHole bool) {
	served := false // whether the main reader serves one of them
	for _, d := range to {
		served = served || d.reader == nil
	}
	if r != &m.main && !served {
		m.main.remove(row.ID)
	}
	for _, d := range m.dests {
		mine := slices.Contains(to, d)
		if d.reader != nil {
			if !mine && (wasHole || r != &m.main) {
				d.reader.remove(row.ID)
			}
			if mine && d.reader == r {
				m.enqueue(d, item{row: row, order: row.ID})
			}
			continue
		}
		if r != &m.main {
			continue
		}
		i, took := slices.BinarySearch(d.took, row.ID)
		if took {
			d.took = slices.Delete(d.took, i, i+1)
		} else if mine {
			m.enqueue(d, item{row: row, order: row.ID})
		}
	}
}

// beyond returns the ids that o has not seen and r has.
func (o *reader) beyond(r *reader) []int64 {
	var ids []int64
	for _, h := range o.unseen {
		if _, unseen := r.find(h.id); !unseen {
			ids = append(ids, h.id)
		}
	}
	return ids
}

// apart is what the checkpoint says of a destination that the main reader serves,
// where that is not what it says of all of those; nil elsewhere.
func (m *Machine) apart(d *destination) *Reader {
	if !m.routing.fans || !d.shares && len(d.took) == 0 {
		return nil
	}
	// What the main reader has seen, or given up, meanwhile is behind it.
	d.took = slices.DeleteFunc(d.took, func(id int64) bool {
		_, unseen := m.main.find(id)
		return !unseen
	})
	own := d.appendOpen(nil)
	if len(own)+len(d.took) == 0 {
		return nil
	}
	rest := reader{unseen: slices.Clone(m.main.unseen)}
	rest.remove(d.took...)
	return &Reader{
		Destination: d.name, Cursor: m.main.cursor, CursorEvent: m.main.cursorEvent,
		Open: sorted(openIDs(&rest, own)), Topics: slices.Clone(d.topics),
	}
}

// shareOf says what others have to do with a row that d is done with, nil where
// there are none.
func (m *Machine) shareOf(d *destination, it *item) *Share {
	if !m.routing.fans {
		if it.row.Owed == nil {
			return nil
		}
		return &Share{Owed: it.row.Owed}
	}
	to := m.routedTo(&it.row, FromLog)
	if it.row.Owed == nil && len(to) == 1 && to[0] == d {
		return nil
	}
	s := &Share{Owed: it.row.Owed}
	for _, o := range to {
		if o != d && m.isToTake(o, it.row.ID) {
			s.Pending = true
		}
	}
	return s
}

// isToTake reports whether a destination is still to take an id from the log, or
// has it in memory from there.
func (m *Machine) isToTake(d *destination, id int64) bool {
	r := m.readerOf(d)
	if id > r.cursor {
		return true
	}
	if _, unseen := r.find(id); unseen {
		if _, took := slices.BinarySearch(d.took, id); !took {
			return true
		}
	}
	return d.holds(id)
}

// holds reports whether a row of the log is in memory on its way to d.
func (d *destination) holds(id int64) bool {
	if _, flying := slices.BinarySearch(d.flight.ids, id); flying {
		return true
	}
	i, _ := slices.BinarySearchFunc(d.queue[d.head:], id, func(it item, id int64) int { return cmp.Compare(it.order, id) })
	for _, it := range d.queue[d.head+i:] {
		if it.order > id {
			break
		}
		if it.row.ID == id && it.from == FromLog {
			return true
		}
	}
	return false
}

// logIDs are the ids of rows of the log, sorted.
func logIDs(items []item) []int64 {
	ids := make([]int64, 0, len(items))
	for i := range items {
		if items[i].from == FromLog {
			ids = append(ids, items[i].row.ID)
		}
	}
	return sorted(ids)
}

// owedTo are the names that the row of a side table is owed to, nil where a
// single destination follows from what the row says.
func owedTo(row *Row, to []*destination) []string {
	if row.Owed != nil || len(to) == 1 {
		return row.Owed
	}
	names := make([]string, len(to))
	for i, d := range to {
		names[i] = d.name
	}
	return names
}
