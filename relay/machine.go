package relay

import (
	"time"
)

// phase is where a machine is in its life.
type phase int

const (
	following phase = iota // another leads, or nobody does yet
	loading                // elected; Load is under way or due
	opening                // loaded; our own first checkpoint is under way
	leading
	resigning // everything is committed, the lease is on its way back
	halted
)

// kind numbers the commands of which one at a time may be unanswered.
type kind int

const (
	askLead kind = iota
	askLoad
	askPoll
	askSide
	askCommit
	askOwners
	askSweep
	askRetain
	askControls
	kinds
)

// Machine decides what a relay does next. It has no goroutine, no clock and
// does no I/O: the same inputs at the same times give the same commands. One
// goroutine at a time may call it.
type Machine struct {
	cfg   Config
	now   time.Time
	out   []Command
	wake  time.Time
	phase phase
	lease Lease

	// life counts loads. The answer to a question asked in an earlier life, or
	// a batch published in one, says nothing about this one.
	life  int64
	asked [kinds]bool
	born  [kinds]int64 // the life in which it was asked

	stopping bool
	stopErr  error
	ending   bool      // the lane ends with this life
	leadAt   time.Time // when to ask for the lease, or renew it
	storeAt  time.Time // no other store command before it: the store failed
	failures int       // of the store, in a row
	// A full disk refuses the lease, and answers every read.
	leadFailures int

	// ownTries outlive a load: the process has survived them.
	ownTries ownTries

	main    reader
	dests   []*destination // by name
	last    *destination   // what destination() found last
	lines   []*line        // by which brokers are reached
	routing routing
	targets []*destination // of the row at hand
	turn    int            // the reader that polls next
	woken   bool
	rounds  holeRounds
	flush   gathering
	sides   sideTables
	ctl     controls
	sus     suspicion
	batches int64 // last batch number
	flying  int   // batches without an answer, of any life
	parked  int   // keys parked, all destinations
	dead    int   // of these, with a dead head
	chase   touchedKey
	sweepAt time.Time
	keepAt  time.Time
	// keepAsked is when the deletion under way was asked for.
	keepAsked time.Time
	stats     Stats
}

// NewMachine returns a machine that has done nothing yet; feed it a Tick.
func NewMachine(cfg Config) *Machine {
	return &Machine{cfg: cfg.withDefaults(), ownTries: ownTries{}}
}

// Step takes one input at the time now and returns what is to be done. now
// must not go backwards. The returned slice, not what it holds, is reused by
// the next Step.
func (m *Machine) Step(now time.Time, in Input) []Command {
	m.now, m.out, m.wake = now, m.out[:0], time.Time{}
	m.take(in)
	m.plan()
	if !m.wake.IsZero() && m.phase != halted {
		m.emit(WaitUntil{At: m.wake, Idle: m.idle()})
	}
	return m.out
}

func (m *Machine) take(in Input) {
	switch in := in.(type) {
	case Elected:
		m.elected(in)
	case Resigned:
		m.resigned()
	case Loaded:
		m.loaded(in)
	case Polled:
		m.polled(in)
	case SideLoaded:
		m.sideLoaded(in)
	case Published:
		m.published(in)
	case Committed:
		m.committed(in)
	case OwnersSeen:
		m.ownersSeen(in)
	case Swept:
		m.swept(in)
	case Retained:
		m.retained(in)
	case ControlsLoaded:
		m.controlsLoaded(in)
	case Failed:
		m.failed(in)
	case Woken:
		m.woken = true
		m.main.pollAt, m.main.foundAt = m.now, m.now
	case Stopping:
		m.stopping = true
	case Tick:
	}
}

// plan emits what follows from the state as it is now. The order is the order
// in which the store gets it: sending first, then what lets memory go, then
// what fills it.
func (m *Machine) plan() {
	if m.phase == halted || m.phase == resigning {
		return
	}
	if m.stopping && m.planStop() {
		return
	}
	m.planLead()
	if m.phase == following || !m.storeReady() || !m.leaseRuns() {
		return
	}
	switch m.phase {
	case loading:
		m.planLoad()
	case opening:
		if !m.stopping {
			m.planCommit()
		}
	case leading:
		if m.planEnd() {
			return
		}
		m.planHeld()
		if !m.stopping {
			m.planSends()
		}
		m.planCommit()
		if m.stopping {
			return
		}
		m.planControls()
		m.planSides()
		m.planPoll()
		m.planOwners()
		m.planUpkeep()
	}
}

func (m *Machine) emit(c Command) { m.out = append(m.out, c) }

// ask emits a command of which only one may be unanswered.
func (m *Machine) ask(k kind, c Command) {
	m.asked[k], m.born[k] = true, m.life
	m.emit(c)
}

// answered takes note of an answer. It returns false for one that was not
// waited for, or was asked in another life.
func (m *Machine) answered(k kind) bool {
	if !m.asked[k] {
		return false
	}
	m.asked[k] = false
	return m.born[k] == m.life
}

// at asks for a Tick at t.
func (m *Machine) at(t time.Time) {
	if m.wake.IsZero() || t.Before(m.wake) {
		m.wake = t
	}
}

// reached reports whether t has come, and asks for a Tick if not.
func (m *Machine) reached(t time.Time) bool {
	if m.now.Before(t) {
		m.at(t)
		return false
	}
	return true
}

// idle reports whether the machine waits for nothing but new events.
func (m *Machine) idle() bool {
	return m.phase == leading && !m.stopping && m.flying == 0 &&
		!m.asked[askPoll] && !m.asked[askCommit] && !m.asked[askSide] && !m.wake.After(m.main.pollAt)
}

func (m *Machine) halt(err error) {
	m.phase = halted
	m.emit(Halt{Err: err})
}
