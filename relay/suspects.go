package relay

import (
	"slices"

	"github.com/settlemq/settle"
)

// suspicion is in force for a life that follows several leaders that died:
// what may have killed them is parked as suspect and then tried alone, each
// try written down before it is made.
type suspicion struct {
	on     bool
	ids    []int64 // open when the last one died
	window int     // rows of each destination that may have been in flight
	// trial is the one suspect that is being tried. There is one at a time, so
	// that a death tells of this one only.
	trial touchedKey
}

// suspect begins a life after unclean ends.
func (m *Machine) suspect(s State) {
	if m.lease.Deaths < m.cfg.SuspectAfter {
		return
	}
	m.sus.on, m.sus.window = true, 2*m.cfg.BatchRows
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
	if it.from != FromLog || d.window > 0 {
		return true
	}
	_, open := slices.BinarySearch(m.sus.ids, it.row.ID)
	return open
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
