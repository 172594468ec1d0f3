package relay

import (
	"slices"
	"time"

	"github.com/settlemq/settle"
)

// suspicion is in force for a life that follows several leaders that died:
// what may have killed them is parked as suspect and then tried alone, each
// try written down before it is made.
type suspicion struct {
	on     bool
	ids    []int64 // open when the last one died
	window int     // rows of each destination that may have been in flight
	// end is the last row of the log when this life had first read all of it:
	// what comes after was appended when the last one was dead. 0: not read yet.
	end int64
	// due is when a timer must have been due to be in flight when it died.
	due time.Time
	// trial is the one suspect that is being tried. There is one at a time, so
	// that a death tells of this one only.
	trial touchedKey
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

// tryAlone writes the next attempt of a key's head down; when that is
// committed the head may be tried.
func (m *Machine) tryAlone(d *destination, pk *parkedKey, it item) {
	if !it.row.Suspect {
		it.row.Attempts = 0 // from now on they count tries nobody survived
	}
	if it.row.Attempts >= m.cfg.CrashAttempts {
		m.dieCrashing(d, pk, &it)
		return
	}
	pk.state, pk.trial, pk.inHand = parkedTrial, it, 1
	m.sus.trial = touchedKey{d, pk}
	m.writeTry(d, pk, it.row.Attempts+1)
}

func (m *Machine) writeTry(d *destination, pk *parkedKey, attempts int) {
	m.flush.Attempts = append(m.flush.Attempts, Attempt{
		ID: pk.trial.row.ID, Destination: d.name, Attempts: attempts, NextAt: laterOf(m.now, pk.due),
		Class: settle.ClassSuspect, Cause: causeSuspect, Suspect: true,
	})
	m.touch(d, pk)
}

// planTrial sends the next suspect once nothing else is in flight. It returns
// true while other sends must wait.
func (m *Machine) planTrial() bool {
	d, pk := m.sus.trial.d, m.sus.trial.pk
	switch {
	case pk == nil || pk.state == parkedTrial:
		return false
	case pk.state == parkedSending:
		return true
	case d.held || m.now.Before(d.until):
		m.untried(d, pk)
		return false
	case m.flying == 0:
		pk.state = parkedSending
		m.send(d, []item{pk.trial}, true)
	}
	return true
}

// untried takes an attempt back that was written down and not made, or that
// the process survived without an answer about the event.
func (m *Machine) untried(d *destination, pk *parkedKey) {
	pk.due = laterOf(m.now.Add(m.cfg.MaxIdle), d.until)
	m.writeTry(d, pk, pk.trial.row.Attempts)
	m.sus.trial = touchedKey{}
	m.handBack(d, pk)
}

// trialFailed takes the answer of a suspect's try that was not an
// acknowledgement. The process survived it: a refusal clears the suspicion.
func (m *Machine) trialFailed(d *destination, it *item, err error) {
	pk := d.keys[it.key()]
	switch settle.ScopeOf(err) {
	case settle.ScopeRecord:
		d.answered()
		m.refused(d, it, err)
	case settle.ScopeTopic:
		d.topicFailed(m.now)
		m.untried(d, pk)
	default:
		d.brokerFailed(m.now)
		m.untried(d, pk)
	}
}

func (m *Machine) dieCrashing(d *destination, pk *parkedKey, it *item) {
	m.die(d, pk, it, failure{
		class: settle.ClassCrashLoop, attempts: it.row.Attempts,
		cause: "the process died each time it was tried alone",
	})
}
