package txmsg

import (
	"time"
)

// Bounds of what is in hand.
const (
	maxWaiting  = 1000   // checks
	maxAnswers  = 1000   // answers that are not kept yet
	maxConfirms = 10_000 // confirmations that are not noted yet
	confirmRows = 500    // noted at once
	noteRows    = 100
	lookRows    = 50
	sweepAtOnce = 4
	purgeRows   = 1000
)

// Waits: how long confirmations and answers gather, and before something is
// tried again that has failed, doubled from first to last.
const (
	confirmWait = 100 * time.Millisecond
	noteWait    = time.Second
	firstWait   = 500 * time.Millisecond
	lastWait    = 15 * time.Second
	purgeEvery  = 10 * time.Minute
)

// Machine decides what becomes of checks, confirmations and records that are left
// over. It has no clock and does no I/O.
type Machine struct {
	scope, owner string
	cfg          Config
	stats        Stats

	warm     retried
	hearing  bool
	hearAt   time.Time
	hearWait time.Duration

	waiting []Check
	inHand  map[string]bool // handles of checks that wait or are asked about
	judging int
	tokens  float64
	filled  time.Time

	answers  batch[Answered]
	confirms batch[string]

	looking  bool
	lookAt   time.Time
	open     []Open
	sweeping int

	purging bool
	purgeAt time.Time
	// wrong says of each kind of work why it fails; "" where it does not.
	wrong [works]string
}

// Kinds of work that may fail, the one that a person is told of first.
const (
	workJudge = iota
	workConfirm
	workNote
	workLook
	workMark
	workPurge
	workWarm // from here on it is the broker's
	workHear
	workAnswer
	workSweep
	works
)

// retried is one thing that is done until it goes well.
type retried struct {
	done, under bool
	at          time.Time
	wait        time.Duration
}

// batch gathers what is written together.
type batch[T any] struct {
	items  []T
	under  int // of the first items are being written
	at     time.Time
	failed bool // the last write; the next is not before at
}

// NewMachine returns the machine of one sender. scope is its database's.
func NewMachine(scope string, cfg Config) *Machine {
	cfg = cfg.withDefaults()
	return &Machine{
		scope: scope, owner: cfg.Owner, cfg: cfg, warm: retried{wait: firstWait}, hearWait: firstWait,
		inHand: map[string]bool{}, tokens: float64(cfg.ChecksAtOnce),
	}
}

// Stats returns how it stands.
func (m *Machine) Stats() Stats {
	s := m.stats
	s.Ready = m.warm.done
	for work, cause := range m.wrong {
		if cause == "" {
			continue
		}
		s.Trouble, s.Cause = TroubleStore, cause
		if work >= workWarm {
			s.Trouble = TroubleBroker
		}
		return s
	}
	return s
}

// Step takes in what has happened and returns what to do.
func (m *Machine) Step(now time.Time, in Input) []Command {
	switch in := in.(type) {
	case Warmed:
		m.warmed(now, in)
	case Deaf:
		m.deaf(now, in)
	case Checked:
		m.checked(now, in.Check)
	case Judged:
		return m.judged(now, in)
	case Replied:
		m.replied(now, in)
	case Noted:
		m.tell(workNote, in.Err)
		m.answers.written(now, in.Err)
	case ConfirmedAll:
		m.tell(workConfirm, in.Err)
		m.confirms.written(now, in.Err)
	case Delivered:
		m.confirm(now, in.ID)
	case Found:
		m.found(now, in)
	case EndedAgain, SentAnew, Marked:
		return append(m.swept(now, in), m.decide(now)...)
	case Purged:
		m.purged(now, in)
	}
	return m.decide(now)
}

// decide returns what is to be done now and is not under way.
func (m *Machine) decide(now time.Time) (do []Command) {
	if !m.hearing && !now.Before(m.hearAt) {
		m.hearing, m.hearAt = true, now
		do = append(do, Listen{})
	}
	if !m.warm.done && !m.warm.under && !now.Before(m.warm.at) {
		m.warm.under = true
		do = append(do, WarmUp{})
	}
	do = m.judge(now, do)
	if ids := m.confirms.due(now, confirmRows); ids != nil {
		do = append(do, Confirm{ids})
	}
	if answers := m.answers.due(now, noteRows); answers != nil {
		do = append(do, Note{answers})
	}
	for m.sweeping < sweepAtOnce && len(m.open) > 0 {
		m.sweeping++
		do = append(do, EndAgain{m.open[0]})
		m.open = m.open[1:]
	}
	if !m.looking && m.sweeping == 0 && !now.Before(m.lookAt) {
		m.looking = true
		do = append(do, Look{lookRows, m.hold()})
	}
	if !m.purging && !now.Before(m.purgeAt) {
		m.purging = true
		do = append(do, Purge{m.cfg.KeepFor, purgeRows})
	}
	return do
}

// Next is when time alone gives something to do.
func (m *Machine) Next(now time.Time) time.Time {
	at := now.Add(time.Minute)
	earlier := func(is bool, t time.Time) {
		if is && t.Before(at) {
			at = t
		}
	}
	earlier(!m.hearing, m.hearAt)
	earlier(!m.warm.done && !m.warm.under, m.warm.at)
	earlier(len(m.waiting) > 0 && m.judging < m.cfg.ChecksAtOnce, m.filled.Add(m.cost()))
	earlier(m.confirms.under == 0 && len(m.confirms.items) > 0, m.confirms.at)
	earlier(m.answers.under == 0 && len(m.answers.items) > 0, m.answers.at)
	earlier(!m.looking && m.sweeping == 0, m.lookAt)
	earlier(!m.purging, m.purgeAt)
	return at
}

func (m *Machine) warmed(now time.Time, in Warmed) {
	m.warm.under, m.warm.done = false, in.Err == nil
	m.tell(workWarm, in.Err)
	if in.Err != nil {
		m.warm.at = now.Add(m.warm.wait)
		m.warm.wait = min(2*m.warm.wait, lastWait)
		return
	}
	m.warm.wait = firstWait
}

// deaf: the broker may have forgotten the process with the connection.
func (m *Machine) deaf(now time.Time, in Deaf) {
	m.tell(workHear, in.Err)
	if now.Sub(m.hearAt) > lastWait {
		m.hearWait = firstWait
	}
	m.hearing, m.hearAt = false, now.Add(m.hearWait)
	m.hearWait = min(2*m.hearWait, lastWait)
	m.warm.done, m.warm.at = false, m.hearAt
}

func (m *Machine) purged(now time.Time, in Purged) {
	m.purging = false
	m.tell(workPurge, in.Err)
	m.stats.Purged += int64(in.Rows)
	m.purgeAt = now.Add(purgeEvery)
	if in.Rows == purgeRows {
		m.purgeAt = now.Add(firstWait)
	}
}

// confirm notes a delivery. What does not fit is found by the sweep, which tells
// the commit again.
func (m *Machine) confirm(now time.Time, id string) {
	if len(m.confirms.items) < maxConfirms {
		m.confirms.add(now, id, confirmWait)
	}
}

func (b *batch[T]) add(now time.Time, item T, wait time.Duration) {
	if len(b.items) == b.under {
		b.at = now.Add(wait)
	}
	b.items = append(b.items, item)
}

// due returns what is to be written now, if anything is.
func (b *batch[T]) due(now time.Time, rows int) []T {
	if b.under > 0 || len(b.items) == 0 || (now.Before(b.at) && (b.failed || len(b.items) < rows)) {
		return nil
	}
	b.under = min(len(b.items), rows)
	return b.items[:b.under:b.under]
}

// written ends a write; what has failed is written again.
func (b *batch[T]) written(now time.Time, err error) {
	if b.at, b.failed = now, err != nil; b.failed {
		b.at = now.Add(firstWait)
	} else {
		b.items = append([]T(nil), b.items[b.under:]...)
	}
	b.under = 0
}

// tell notes how some work has gone.
func (m *Machine) tell(work int, err error) {
	m.wrong[work] = ""
	if err != nil {
		m.wrong[work] = err.Error()
	}
}
