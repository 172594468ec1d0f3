package consumer

import (
	"errors"
	"slices"
	"time"

	"github.com/settlemq/settle"
)

// Machine decides what a consumer group does. It has no goroutine, no clock
// and no I/O: Step is given what happened and when, and returns what to do.
//
// Its rules:
//
//   - One Apply is one transaction. What waits when an Apply ends, of all
//     partitions, makes the next one; nothing waits for a batch to fill.
//   - A delivery is completed with nil only when each of its records has a
//     durable verdict. A floor moves only with the work that makes all up to
//     it durable.
//   - An event that fails is written down (parked or dead) in the transaction
//     that applies what came before it; everything else goes on.
//   - What is in the retry store is tried from there, in order per key. An
//     attempt is written down before it is made where a process may die of it.
//   - Where the broker assigns partitions, what is in hand is written down while
//     members have died of late. What one had in hand that died is tried alone.
//   - What a person has given up on is compensated by the same rules as it
//     would be handled; where there is no compensation it is dead again at once.
//   - The fault of a store, a dependency or a shutdown costs no attempt.
type Machine struct {
	group string
	cfg   Config
	now   time.Time
	out   []Command

	kinds map[string]*kind
	order []*kind // the same, in a fixed order

	parts map[partName]*part
	queue []*delivery // unanswered deliveries, in order of arrival

	flight   []*work
	lastWork WorkID
	spare    []*work
	busy     map[string]struct{} // keys in flight; nil with Concurrency 1

	due      dueList
	dueTurn  bool // the retry store is next in turn
	store    storeState
	bucket   bucket
	controls controlState
	forget   forgetState
	roll     roll

	stopping, stopped bool
	silent            bool // last words are said
	wake              time.Time
	stats             Stats
}

type partName struct {
	topic  string
	number int
}

// part is what is known of a partition that is leased from our store.
type part struct {
	epoch int64
	// suspects is how many of the next records are to be tried alone.
	suspects int
}

// controlState is what people have paused.
type controlState struct {
	known, loading, groupPaused bool
	version                     int64
	keys                        map[string]struct{}
	at                          time.Time // when to load again
}

// forgetState paces the deletion of old consume-log rows.
type forgetState struct {
	running bool
	at      time.Time
}

const (
	forgetRows  = 500
	forgetBusy  = time.Second
	forgetIdle  = time.Minute
	pausedWait  = 5 * time.Second
	maxCause    = 4 << 10
	soloRetries = 3
)

// NewMachine returns the machine of a group with a rule for each event type
// that it handles; every other type is ignored. cfg is taken as valid.
func NewMachine(group string, handlers map[string]HandlerRule, cfg Config) *Machine {
	cfg = cfg.withDefaults()
	m := &Machine{
		group: group,
		cfg:   cfg,
		kinds: make(map[string]*kind, len(handlers)),
		parts: make(map[partName]*part),
		store: storeState{rows: cfg.BatchRows},
		stats: Stats{Group: group, Core: cfg.Core},
	}
	for name, rule := range handlers {
		k := m.newKind(name, rule)
		m.kinds[name] = k
		if c := rule.Compensation; c != nil {
			k.compensation = m.newKind(compensationOf+name, HandlerRule{External: c.External, MaxVersion: c.MaxVersion})
		}
	}
	slices.SortFunc(m.order, func(a, b *kind) int {
		if a.name < b.name {
			return -1
		}
		return 1
	})
	if cfg.Concurrency > 1 {
		m.busy = make(map[string]struct{})
	}
	m.bucket = newBucket(cfg.RateLimit, cfg.RateBurst)
	return m
}

// compensationOf begins the name of a compensation where people see it.
const compensationOf = "compensation of "

func (m *Machine) newKind(name string, rule HandlerRule) *kind {
	k := &kind{name: name, rule: rule, rows: m.cfg.BatchRows}
	k.rule.MaxVersion = max(rule.MaxVersion, 1)
	m.order = append(m.order, k)
	return k
}

// kindOf returns what is called for an event; nil if nothing is.
func (m *Machine) kindOf(eventType string, compensate bool) *kind {
	k := m.kinds[eventType]
	if k != nil && compensate {
		return k.compensation
	}
	return k
}

// Step takes one input at time now and returns the commands that follow from
// it. now does not go back; if it does, nothing is lost, only later. The slice
// is valid until the next Step.
func (m *Machine) Step(now time.Time, in Input) []Command {
	m.now = now
	clear(m.out)
	m.out = m.out[:0]
	switch in := in.(type) {
	case Delivered:
		m.delivered(in)
	case Withdrawn:
		m.withdrawn(in)
	case Claimed:
		m.claimed(in)
	case Lost:
		m.lost(in)
	case Applied:
		m.applied(in)
	case DueLoaded:
		m.dueLoaded(in)
	case ControlsLoaded:
		m.controlsLoaded(in)
	case Attended:
		m.attended(in)
	case Forgotten:
		m.forgotten(in)
	case Stopping:
		m.stop()
	}
	if !m.stopping {
		m.ask()
		m.dispatch()
		m.ask() // a dispatch may have emptied the list of due events
	}
	m.finish()
	return m.out
}

func (m *Machine) emit(c Command) { m.out = append(m.out, c) }

// ask emits the questions whose time has come.
func (m *Machine) ask() {
	if m.now.Before(m.store.until) {
		return
	}
	if !m.controls.loading && !m.now.Before(m.controls.at) {
		m.controls.loading = true
		m.emit(LoadControls{})
	}
	if m.roll.due(m.now) {
		m.roll.asking = true
		m.emit(Attend{})
	}
	if !m.due.loading && len(m.due.items) == 0 && !m.now.Before(m.due.at) && m.controls.known && !m.controls.groupPaused {
		m.due.loading = true
		m.emit(LoadDue{Limit: m.cfg.BatchRows})
	}
	if m.cfg.DedupWindow > 0 && !m.forget.running && !m.now.Before(m.forget.at) {
		m.forget.running = true
		m.emit(Forget{Before: m.now.Add(-m.cfg.DedupWindow), Limit: forgetRows})
	}
}

// dispatch issues works while there is room for them. The retry store and the
// deliveries take turns, so that neither starves the other.
func (m *Machine) dispatch() {
	m.bucket.wanted = false
	if m.now.Before(m.store.until) || !m.controls.known || m.controls.groupPaused {
		return
	}
	m.bucket.refill(m.now)
	for len(m.flight) < m.cfg.Concurrency {
		m.dueTurn = !m.dueTurn
		if m.dueTurn && m.planDue() || m.planDeliveries() || !m.dueTurn && m.planDue() {
			continue
		}
		return
	}
}

// finish emits when to be woken, or that all is done.
func (m *Machine) finish() {
	if m.stopping {
		if len(m.flight) == 0 && !m.silent {
			m.silent = true
			m.lastWords()
		}
		if !m.stopped && len(m.flight) == 0 && len(m.queue) == 0 {
			m.stopped = true
			m.emit(Stopped{})
		}
		return
	}
	if at := m.nextWake(); !at.Equal(m.wake) {
		m.wake = at
		m.emit(WaitUntil{At: at})
	}
}

// nextWake returns the earliest time at which something is to be done that no
// answer will bring about.
func (m *Machine) nextWake() time.Time {
	if m.now.Before(m.store.until) {
		return m.store.until
	}
	var at time.Time
	if !m.controls.loading {
		at = m.controls.at
	}
	if !m.due.loading && len(m.due.items) == 0 && m.controls.known && !m.controls.groupPaused {
		at = earliest(at, m.due.at)
	}
	if m.cfg.DedupWindow > 0 && !m.forget.running {
		at = earliest(at, m.forget.at)
	}
	if m.roll.wanted && !m.roll.asking {
		at = earliest(at, m.roll.at)
	}
	for _, k := range m.order {
		if m.now.Before(k.gate.until) {
			at = earliest(at, k.gate.until)
		}
	}
	if m.bucket.wanted {
		at = earliest(at, m.bucket.ready(m.now))
	}
	return at
}

func (m *Machine) claimed(in Claimed) {
	c := in.Claim
	name := partName{c.Partition.Topic, c.Partition.Number}
	p := m.parts[name]
	if p == nil {
		p = &part{}
		m.parts[name] = p
	}
	if p.epoch == c.Partition.Epoch {
		return
	}
	p.epoch, p.suspects = c.Partition.Epoch, 0
	if c.Deaths >= m.cfg.SuspectAfter {
		p.suspects = m.cfg.BatchRows
		m.emit(Note{State: "suspect", Now: "one at a time", Name: partitionName(c.Partition)})
	}
}

func (m *Machine) controlsLoaded(in ControlsLoaded) {
	c := &m.controls
	c.loading = false
	if in.Err != nil {
		m.storeDown(in.Err, false)
		return
	}
	m.storeUp(false)
	c.at = m.now.Add(m.cfg.ControlsPoll)
	if c.known && c.version == in.Controls.Version {
		return
	}
	c.known, c.version, c.keys = true, in.Controls.Version, nil
	for _, row := range in.Controls.Rows {
		if name, ok := cutGroup(row, m.group); ok {
			if c.keys == nil {
				c.keys = make(map[string]struct{})
			}
			c.keys[name] = struct{}{}
		}
	}
	if paused := in.Controls.Paused("group", m.group); paused != c.groupPaused {
		c.groupPaused = paused
		now := "resumed"
		if paused {
			now = "paused"
		}
		m.emit(Note{State: "group", Now: now, Name: m.group})
	}
	m.due.at = m.now // what was paused may be due
}

// cutGroup returns the key that a control row pauses in this group.
func cutGroup(row settle.Control, group string) (key string, ok bool) {
	if row.Kind != "key" || len(row.Name) <= len(group) || row.Name[:len(group)] != group || row.Name[len(group)] != '/' {
		return "", false
	}
	return row.Name[len(group)+1:], true
}

func (m *Machine) forgotten(in Forgotten) {
	m.forget.running = false
	switch {
	case in.Err != nil:
		m.storeDown(in.Err, false)
		m.forget.at = m.now.Add(forgetIdle)
	case in.Rows >= forgetRows:
		m.forget.at = m.now.Add(forgetBusy)
	default:
		m.forget.at = m.now.Add(forgetIdle)
	}
}

func (m *Machine) stop() {
	m.stopping = true
	for _, d := range slices.Clone(m.queue) {
		m.abandon(d, ErrStopping)
	}
}

// halt ends the group for a reason that no waiting cures.
func (m *Machine) halt(err error) {
	if m.stopping && !errors.Is(err, settle.ErrNewGeneration) {
		return
	}
	m.emit(Halt{Err: err})
	m.stop()
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
