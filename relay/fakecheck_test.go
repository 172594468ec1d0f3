package relay

import "slices"

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
