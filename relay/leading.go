package relay

import (
	"errors"
	"time"

	"github.com/settlemq/settle"
)

// planLead takes the lease, or renews it at a third of its time.
func (m *Machine) planLead() {
	if m.asked[askLead] || !m.reached(m.leadAt) {
		return
	}
	m.ask(askLead, Lead{Owner: m.cfg.Owner, Lane: m.cfg.Lane, TTL: m.cfg.LeaseTTL, Renew: m.phase != following})
}

func (m *Machine) elected(in Elected) {
	m.asked[askLead] = false
	m.storeAnswered()
	m.leadFailures = 0
	l := in.Lease
	if !l.Held {
		if m.phase != following {
			m.forget(following)
		}
		m.leadAt = m.now.Add(m.cfg.LeaseTTL / 5)
		m.notHeld(l)
		return
	}
	m.leadAt = m.now.Add(m.cfg.LeaseTTL / 3)
	same := m.phase != following && m.lease.Epoch == l.Epoch
	m.lease = l
	if !same {
		m.forget(loading)
		m.lease = l
	}
}

// leaseRuns reports whether we may still act as leader. When the lease has run
// out nothing is done until it was renewed: if nobody took over meanwhile, the
// epoch is the same and all that is known still holds.
func (m *Machine) leaseRuns() bool { return m.lease.Held && m.now.Before(m.lease.Expires) }

// publishTime is how long a publish may take now: it must have ended when the
// lease ends. Zero means that there is not enough left to begin one.
func (m *Machine) publishTime() time.Duration {
	margin := m.cfg.LeaseTTL / 10
	left := m.lease.Expires.Sub(m.now) - margin
	if left < margin {
		return 0
	}
	return min(left, m.cfg.PublishTimeout)
}

func (m *Machine) planLoad() {
	for k := askLoad; k < kinds; k++ {
		if m.asked[k] {
			return // an answer of an earlier life is still to come
		}
	}
	if !m.stopping {
		m.ask(askLoad, Load{Lease: m.lease})
	}
}

// loaded starts from what the last leader left: cursors, and every id at or
// below them that was not done, which is read again like a hole.
func (m *Machine) loaded(in Loaded) {
	if !m.answered(askLoad) || m.phase != loading {
		return
	}
	m.storeAnswered()
	if err := in.State.CheckGeneration(); err != nil {
		m.stopping, m.stopErr = true, err
		m.forget(loading)
		return
	}
	s := in.State
	m.suspect(s)
	m.flush.number = s.Checkpoint.Number
	readers, lists := unfold(s.Checkpoint.Readers)
	if len(readers) > 0 {
		m.routing.begin(lists, m.cfg.Routes, readers[0].Cursor)
	} else {
		m.routing.begin(lists, m.cfg.Routes, 0)
	}
	for _, r := range readers {
		m.restore(r)
	}
	m.loadSides(s)
	m.loadParked(s.Parked)
	m.applyControls(s.Controls)
	m.sweepAt = m.now.Add(m.cfg.SweepEvery)
	m.keepAt = m.now.Add(m.cfg.RetainEvery)
	m.phase = opening
	m.flush.force = true
}

func (m *Machine) restore(r Reader) {
	to := &m.main
	if r.Destination != "" {
		d := m.destination(r.Destination)
		d.reader = &reader{}
		to = d.reader
		for _, topic := range r.Topics {
			d.serves(topic)
		}
		if m.routing.used() && d.line.broker == "" {
			d.serves(d.topic) // a program without routes knows no other
		}
	}
	to.cursor, to.cursorEvent = r.Cursor, r.CursorEvent
	to.unseen = make([]hole, len(r.Open))
	for i, id := range r.Open {
		to.unseen[i] = hole{id: id, born: m.now}
	}
}

// forget drops all that was known. Batches in flight stay with their
// destinations: nothing is sent there before their answer has come.
func (m *Machine) forget(next phase) {
	m.life++
	m.phase = next
	m.main = reader{pollAt: m.now}
	for _, d := range m.dests {
		d.forget()
	}
	m.rounds = holeRounds{}
	m.routing = routing{}
	m.flush = gathering{seq: m.flush.seq, committed: m.flush.committed}
	m.sides = sideTables{}
	m.sus = suspicion{}
	m.parked, m.dead, m.chase, m.woken, m.ending = 0, 0, touchedKey{}, false, false
	if next == following {
		m.lease = Lease{}
	}
}

// failed takes the error of a store command.
func (m *Machine) failed(in Failed) {
	k := kindOf(in.Command)
	if k == kinds { // Resign: the lease runs out by itself
		m.notResigned()
		return
	}
	current := m.answered(k)
	m.failures++
	m.storeAt = m.now.Add(backoff(m.failures, 20*time.Millisecond, 5*time.Second))
	switch {
	case k == askLead && !errors.Is(in.Err, settle.ErrFenced):
		m.leadFailures++
		m.leadAt = laterOf(m.storeAt, m.now.Add(backoff(m.leadFailures, 20*time.Millisecond, m.cfg.LeaseTTL/5)))
	case !current:
	case errors.Is(in.Err, settle.ErrFenced):
		m.forget(following)
		m.leadAt = m.now.Add(m.cfg.LeaseTTL / 5)
	case errors.Is(in.Err, settle.ErrNewGeneration):
		m.stopping, m.stopErr = true, in.Err
	case k == askCommit:
		// Whether it was written is not known: what the store says decides.
		m.forget(loading)
	case k == askSide:
		m.sideFailed(in.Command.(ReadSide).Query)
	case k == askControls:
		m.ctl.due = m.storeAt
	case k == askOwners:
		m.rounds.next = m.storeAt
	case k == askSweep:
		// What it has found may be listed all the same.
		m.sides.extra.pending = true
		m.sweepAt = m.now.Add(m.cfg.SweepEvery)
	case k == askRetain:
		m.keepAt = m.now.Add(m.cfg.RetainEvery)
	}
	if m.phase == leading && m.flush.committed < m.flush.barrier {
		// With the connection the database may have died, and rows that were
		// not durable with it: what it says now decides.
		m.forget(loading)
	}
}

func kindOf(c Command) kind {
	switch c.(type) {
	case Lead:
		return askLead
	case Load:
		return askLoad
	case Poll:
		return askPoll
	case ReadSide:
		return askSide
	case Commit:
		return askCommit
	case AskOwners:
		return askOwners
	case Sweep:
		return askSweep
	case Retain:
		return askRetain
	case LoadControls:
		return askControls
	}
	return kinds
}

// storeReady is false for a while after the store has failed.
func (m *Machine) storeReady() bool { return m.reached(m.storeAt) }

func (m *Machine) storeAnswered() { m.failures, m.storeAt = 0, time.Time{} }

// planStop ends the machine once nothing is in flight and everything
// acknowledged is committed. It returns true when nothing else is to be done.
func (m *Machine) planStop() bool {
	if m.flying > 0 || m.asked[askCommit] || m.ending && m.leaseRuns() {
		return false
	}
	for k := range kinds {
		if m.asked[k] {
			return false // its answer may still be a lease to give back
		}
	}
	if m.phase == following || !m.leaseRuns() {
		m.halt(m.stopErr)
		return true
	}
	if m.phase == leading && !m.flush.Empty() {
		return false
	}
	m.phase = resigning
	m.emit(Resign{Lease: m.lease})
	return true
}

// planUpkeep schedules the sweep and retention at a bounded pace.
func (m *Machine) planUpkeep() {
	if !m.asked[askSweep] && m.reached(m.sweepAt) {
		m.ask(askSweep, Sweep{Lease: m.lease, Limit: upkeepLimit})
	}
	if !m.asked[askRetain] && m.reached(m.keepAt) {
		var before time.Time
		if m.cfg.KeepFor > 0 {
			before = m.now.Add(-m.cfg.KeepFor)
		}
		m.keepAsked = m.now
		m.ask(askRetain, Retain{Lease: m.lease, Before: before, Limit: retainLimit})
	}
}

// upkeepLimit bounds the rows that one sweep handles, retainLimit those of one
// deletion: what reads and commits wait for meanwhile.
const (
	upkeepLimit = 1000
	retainLimit = 2000
)

// retainShare is how much longer than a deletion the pause behind it is while
// there is more to delete: sending has the better part of the time.
const retainShare = 3

func (m *Machine) swept(in Swept) {
	if !m.answered(askSweep) {
		return
	}
	m.storeAnswered()
	m.sweepAt = m.now.Add(m.cfg.SweepEvery)
	m.stats.Late += int64(in.Found)
	// Also when it found nothing: an earlier one, whose caller had given up, may
	// have listed rows since the table was read.
	m.sides.extra.pending = true
	if in.Found >= upkeepLimit {
		m.sweepAt = m.now.Add(m.cfg.SweepEvery / 10)
	}
}

func (m *Machine) retained(in Retained) {
	if !m.answered(askRetain) {
		return
	}
	m.storeAnswered()
	pause := m.cfg.RetainEvery
	switch {
	case in.Rows >= retainLimit/2: // of those looked at, some may have to stay
		pause = min(pause, max(retainShare*m.now.Sub(m.keepAsked), 5*time.Millisecond))
	case in.Rows > 0:
		pause /= 10
	}
	m.keepAt = m.now.Add(pause)
}
