package relay

import (
	"slices"
	"time"
)

// suspicion is in force for a life that follows several leaders that died:
// what may have killed them is parked as suspect and then tried, each try
// written down before it is made.
type suspicion struct {
	on     bool
	ids    []int64 // open when the last one died
	window int     // rows of each destination that may have been in flight
	// end is the last row of the log when this life had first read all of it:
	// what comes after was appended when the last one was dead. 0: not read yet.
	end int64
	// due is when a timer must have been due to be in flight when it died.
	due   time.Time
	trial trial
}

// suspect begins a life after unclean ends.
func (m *Machine) suspect(s State) {
	if m.lease.Deaths < m.cfg.SuspectAfter {
		return
	}
	// A lease more: its clock was another.
	m.sus.on, m.sus.window, m.sus.due = true, 2*m.cfg.BatchRows, m.now.Add(m.cfg.LeaseTTL)
	for _, r := range s.Checkpoint.Readers {
		m.sus.ids = append(m.sus.ids, r.Open...)
	}
	slices.Sort(m.sus.ids)
	for _, d := range m.dests {
		d.window = m.sus.window
	}
}

// isSuspect reports whether a row may have been in flight when a leader died.
func (m *Machine) isSuspect(d *destination, it *item) bool {
	if !m.sus.on {
		return it.row.Suspect
	}
	switch {
	case it.from == FromDelayed && it.row.Event != nil:
		return !it.row.Event.NotBefore.After(m.sus.due)
	case it.from != FromLog:
		return true
	case d.window > 0:
		return m.sus.end == 0 || it.row.ID <= m.sus.end
	}
	_, open := slices.BinarySearch(m.sus.ids, it.row.ID)
	return open
}

// readToTheEnd takes note of a page that had all rows there were.
func (s *suspicion) readToTheEnd(rows []Row, cursor int64) {
	if s.on && s.end == 0 && (len(rows) == 0 || rows[len(rows)-1].ID <= cursor) {
		s.end = cursor
	}
}

// parked takes note that a suspect row is recorded as one.
func (s *suspicion) parked(d *destination, it *item) {
	if it.from == FromLog {
		d.window = max(0, d.window-1)
	}
}
