package relay

import (
	"cmp"
	"math"
	"slices"
)

// End is where a lane of a generation has ended.
type End struct {
	Lane    Lane
	Readers []Reader
}

// Found is what the table says of an id now: whose row it is.
type Found struct {
	Key, Destination string
}

// mergeWidth is how far readers of one destination may have ended apart for
// the ids between them to be looked up one by one. Where they are further apart
// the next generation begins at the lowest: what the others have sent above it
// goes again, in order, and nothing is searched for.
const mergeWidth = 100_000

// Undecided returns, sorted, the ids of which some lane of a generation has
// not said that they are done. Every lane of it has ended. Look them up in one
// snapshot, taken after that, and pass what is visible to Merge.
func Undecided(ends []End) []int64 {
	m := mergingOf(ends)
	var ids []int64
	for _, d := range m.destinations() {
		ids = append(ids, m.undecided(d, m.level(d))...)
	}
	return unique(ids)
}

// Merge returns with what readers each lane of the next generation begins.
// found are the undecided ids that are visible.
//
// A row that is visible was seen by its owner or was not: if its owner was done
// with it, it is done; else it is open, and the new owner reads it. An id that
// is not visible stays open for every new lane: whoever may still commit it
// does so after all old lanes have ended. Nothing else is open: below the
// cursors every lane has seen, sent, recorded or given up each id by name.
//
// Where there are routes a row is left open to every reader whose lane was not
// done with it: only that of its destination will send it.
func Merge(ends []End, found map[int64]Found) []Reader {
	m := mergingOf(ends)
	names := m.destinations()
	unseen := m.undecided("", m.level(""))
	var readers []Reader
	for _, d := range names {
		r := Reader{Destination: d, Cursor: m.level(d)}
		r.CursorEvent = m.eventAt(d, r.Cursor)
		for _, id := range m.undecided(d, r.Cursor) {
			f, visible := found[id]
			_, hole := slices.BinarySearch(unseen, id)
			switch {
			case visible && (m.routing != nil || m.serves(names, f.Destination) == d) && !m.done(id, f.Key, d):
				r.Open = append(r.Open, id)
			case !visible && (hole || m.named(d, id)):
				r.Open = append(r.Open, id)
			}
		}
		r.Topics = m.topics(d)
		readers = append(readers, r)
	}
	if m.routing == nil {
		return readers
	}
	return fold(readers, m.routing)
}

type merging struct {
	ends []End // with the readers as they are
	// routing are the routes that all lanes have ended under; nil without any.
	routing []Routing
}

func mergingOf(ends []End) merging {
	var m merging
	var lists [][]Routing
	apart := false
	for _, e := range ends {
		readers, routing := unfold(e.Readers)
		m.ends = append(m.ends, End{Lane: e.Lane, Readers: readers})
		lists = append(lists, routing)
		apart = apart || len(readers) > 1
	}
	sameRoutes := func(a, b []Routing) bool {
		return len(a) == 1 && len(b) == 1 && slices.Equal(a[0].Routes, b[0].Routes)
	}
	same := true
	for _, l := range lists {
		same = same && (len(l) == 0 && len(lists[0]) == 0 || sameRoutes(l, lists[0]))
		if n := len(l); n > 0 && (m.routing == nil || l[n-1].After > m.routing[0].After) {
			m.routing = l[n-1:]
		}
	}
	if !same && apart {
		m.ends = []End{m.lowest()}
	}
	return m
}

// lowest makes one of lanes that did not all route the same ids alike while some
// destination was behind: from the lowest cursor on everything goes once more,
// where the newest routes lead.
func (m merging) lowest() End {
	low := Reader{Cursor: math.MaxInt64}
	for _, e := range m.ends {
		if len(e.Readers) == 0 {
			low.Cursor, low.CursorEvent = 0, ""
		}
		for _, r := range e.Readers {
			if r.Cursor < low.Cursor {
				low.Cursor, low.CursorEvent = r.Cursor, r.CursorEvent
			}
			low.Open = append(low.Open, r.Open...)
		}
	}
	low.Open = slices.DeleteFunc(unique(low.Open), func(id int64) bool { return id > low.Cursor })
	return End{Lane: Lane{Of: 1}, Readers: []Reader{low}}
}

// topics are those whose rows a destination's reader may serve.
func (m merging) topics(destination string) []string {
	var topics []string
	for _, e := range m.ends {
		for _, r := range e.Readers {
			if r.Destination == destination {
				topics = append(topics, r.Topics...)
			}
		}
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// destinations are the readers that some lane has, the main one first.
func (m merging) destinations() []string {
	names := []string{""}
	for _, e := range m.ends {
		for _, r := range e.Readers {
			names = append(names, r.Destination)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// serves names the reader that a destination's rows are read by.
func (m merging) serves(names []string, destination string) string {
	if slices.Contains(names, destination) {
		return destination
	}
	return ""
}

// reader is a lane's reader of a destination.
func (e End) reader(destination string) Reader {
	var main Reader
	for _, r := range e.Readers {
		switch r.Destination {
		case destination:
			return r
		case "":
			main = r
		}
	}
	return main
}

// level is the cursor of a destination's reader in the next generation.
func (m merging) level(destination string) int64 {
	low, high := int64(math.MaxInt64), int64(0)
	for _, e := range m.ends {
		r := e.reader(destination)
		low, high = min(low, r.Cursor), max(high, r.Cursor)
	}
	if high-low > mergeWidth {
		return low
	}
	return high
}

func (m merging) eventAt(destination string, cursor int64) string {
	for _, e := range m.ends {
		if r := e.reader(destination); r.Cursor == cursor && r.CursorEvent != "" {
			return r.CursorEvent
		}
	}
	return ""
}

// undecided are the ids up to a cursor that some lane's reader has open, or
// has not come to.
func (m merging) undecided(destination string, upTo int64) []int64 {
	var ids []int64
	for _, e := range m.ends {
		r := e.reader(destination)
		for _, id := range r.Open {
			if id <= upTo {
				ids = append(ids, id)
			}
		}
		for id := r.Cursor + 1; id <= upTo; id++ {
			ids = append(ids, id)
		}
	}
	return unique(ids)
}

// named reports whether some lane's reader of a destination has an id open.
func (m merging) named(destination string, id int64) bool {
	return slices.ContainsFunc(m.ends, func(e End) bool {
		_, open := slices.BinarySearch(e.reader(destination).Open, id)
		return open
	})
}

// done reports whether the owner of a row has sent it to a destination, or has
// recorded it elsewhere, if it goes there.
func (m merging) done(id int64, key, destination string) bool {
	key = keyOf(id, key)
	i := slices.IndexFunc(m.ends, func(e End) bool { return e.Lane.Owns(key) })
	if i < 0 {
		return false
	}
	r := m.ends[i].reader(destination)
	_, open := slices.BinarySearch(r.Open, id)
	return id <= r.Cursor && !open
}

func unique(ids []int64) []int64 {
	slices.SortFunc(ids, cmp.Compare[int64])
	return slices.Compact(ids)
}
