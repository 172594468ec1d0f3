package relay

import (
	"fmt"
	"slices"
)

// settled reports whether an id is done or recorded somewhere.
func (s *fakeStore) settled(id int64) bool {
	r := s.rows[id]
	if r == nil || r.sent || s.skipped[id] || s.gap[id] {
		return true
	}
	_, delayed := s.delayed[id]
	_, extra := s.extra[id]
	_, dead := s.dead[id]
	return delayed || extra || dead || s.findParked(r.row.Event.Topic, id) != nil || len(s.check.Readers[0].Routing) > 0 && s.parkedAnywhere(id)
}

// checkPassed is rule A: what is at or below the cursor that is responsible
// for it is open, done or recorded.
func (s *fakeStore) checkPassed() {
	if len(s.goes) > 0 {
		s.checkEach()
		return
	}
	for id := int64(1); id <= s.nextID; id++ {
		r := s.rows[id]
		if r == nil || s.settled(id) {
			continue
		}
		reader := s.check.Readers[0]
		for _, o := range s.check.Readers[1:] {
			if o.Destination == r.row.Event.Topic {
				reader = o
			}
		}
		_, open := slices.BinarySearch(reader.Open, id)
		if id <= reader.Cursor && !open {
			s.errorf("checkpoint %d passes id %d, which is neither done nor recorded", s.check.Number, id)
		}
	}
}

func (s *fakeStore) parkedAnywhere(id int64) bool {
	for k := range s.parked {
		if s.findParked(k[0], id) != nil {
			return true
		}
	}
	return false
}

// route remembers where the rows go that the log has come to: the lists that
// decided are forgotten in time.
func (s *fakeStore) route() {
	readers, lists := unfold(s.check.Readers)
	r := routing{lists: lists}
	if r.look(); !r.fans && len(s.goes) == 0 {
		return
	}
	for id := int64(1); id <= readers[0].Cursor; id++ {
		if row := s.rows[id]; row != nil && s.goes[id] == nil {
			s.goes[id] = Destinations(r.of(id), row.row.Event)
		}
	}
}

func (s *fakeStore) settle(id int64, destination string) {
	s.doneAt[fmt.Sprint(id, destination)] = true
}

// leaveShare takes a row out of a side table for one of its destinations.
func (s *fakeStore) leaveShare(from Origin, id int64, destination string, share *Share) {
	owed := s.owedExtra
	if from == FromDelayed {
		owed = s.owedDelayed
	}
	if share == nil || share.Owed == nil || from != FromExtra && from != FromDelayed {
		s.leave(from, id, destination)
		return
	}
	left, known := owed[id]
	if !known {
		left = share.Owed
	}
	left = slices.DeleteFunc(slices.Clone(left), func(name string) bool { return name == destination })
	if owed[id] = left; len(left) == 0 {
		delete(owed, id)
		s.leave(from, id, destination)
	}
}

// over reports whether all of a row's destinations are done with it, as far as
// that is known, and checks that it is true.
func (s *fakeStore) over(id int64, share *Share) bool {
	_, delayed := s.delayed[id]
	_, extra := s.extra[id]
	if share != nil && (share.Pending || delayed || extra || s.parkedAnywhere(id)) {
		return false
	}
	for _, name := range s.goes[id] {
		if !s.doneAt[fmt.Sprint(id, name)] && !s.gap[id] {
			s.errorf("id %d counts as done, and %s does not have it", id, name)
		}
	}
	s.finished[id] = true
	return true
}

func (s *fakeStore) passSkip(event string) {
	s.controls.Skips = slices.DeleteFunc(slices.Clone(s.controls.Skips), func(id string) bool { return id == event })
}

// checkEach is rule A where events go to several destinations.
func (s *fakeStore) checkEach() {
	readers, _ := unfold(s.check.Readers)
	for id := int64(1); id <= s.nextID; id++ {
		_, delayed := s.delayed[id]
		_, extra := s.extra[id]
		for _, name := range s.goes[id] {
			if s.doneAt[fmt.Sprint(id, name)] || s.gap[id] || s.findParked(name, id) != nil ||
				delayed && (s.delayed[id].Destination == name || slices.Contains(s.owedDelayed[id], name)) || extra && (s.owedExtra[id] == nil || slices.Contains(s.owedExtra[id], name)) {
				continue
			}
			reader := readers[0]
			for _, o := range readers[1:] {
				if o.Destination == name {
					reader = o
				}
			}
			if _, open := slices.BinarySearch(reader.Open, id); id <= reader.Cursor && !open {
				s.errorf("checkpoint %d passes id %d at %s, where it is neither done nor recorded", s.check.Number, id, name)
			}
			s.checkLeast(id, name)
		}
	}
}

// checkLeast is that what the tables say of a topic is not said before each
// destination has come to it.
func (s *fakeStore) checkLeast(id int64, name string) {
	reader := s.check.Readers[0]
	for _, o := range s.check.Readers[1:] {
		if o.Destination == s.rows[id].row.Event.Topic {
			reader = o
		}
	}
	if _, open := slices.BinarySearch(reader.Open, id); id <= reader.Cursor && !open {
		s.errorf("checkpoint %d says that id %d is done, and %s has not come to it", s.check.Number, id, name)
	}
}
