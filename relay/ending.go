package relay

import (
	"time"
)

// notHeld takes a lease that was not given for a reason of its own.
func (m *Machine) notHeld(l Lease) {
	switch {
	case l.Ended:
		m.halt(ErrLaneEnded)
	case l.Early:
		// The keys of this lane wait until the last one before it has ended.
		m.leadAt = m.now.Add(max(m.cfg.LeaseTTL/100, 10*time.Millisecond))
	}
}

// planEnd ends a lane that has come to its barrier. Nothing new is begun; once
// the broker has answered for what is in flight, a last checkpoint names all
// that this lane has not done, and the lease is given back for ever. What waits
// in memory is not sent first: a topic that takes nothing must not keep the
// lanes of the next generation from the others. It returns true when nothing
// else is to be done.
func (m *Machine) planEnd() bool {
	if !m.ctl.divided || m.main.cursor < m.ctl.barrier || m.stopping && !m.ending {
		return false
	}
	if !m.ending {
		m.ending, m.flush.force = true, true
	}
	if m.flying > 0 {
		return true
	}
	m.planCommit()
	for k := range kinds {
		if m.asked[k] {
			return true
		}
	}
	m.phase = resigning
	last := m.lease
	last.Ended = true
	m.emit(Resign{Lease: last})
	return true
}

// resigned ends the machine after its last word to the store.
func (m *Machine) resigned() {
	if m.ending {
		m.stopErr = ErrLaneEnded
	}
	m.halt(m.stopErr)
}

// notResigned takes an end that the store may not have written. A lane that
// was not ended needs a leader that ends it.
func (m *Machine) notResigned() {
	if !m.ending || m.stopping {
		m.halt(m.stopErr)
		return
	}
	m.forget(following)
	m.leadAt = m.now.Add(m.cfg.LeaseTTL / 5)
}
