package relay

import (
	"maps"

	"github.com/settlemq/settle"
)

// trial is the suspects of one destination that are tried together, in one
// publish. There is one trial at a time and nothing is in flight beside it, so
// that a death tells of it only.
//
// One commit writes it down before it is sent: each row with how many they are
// (Row.Together). If the process survives, all of it is cleared at once. If it
// dies, whoever leads next reads the number with the row and tries it among half
// as many at most. So a thousand events in doubt cost a few commits when their
// leaders were killed from outside, and one that kills is alone after about
// log2(n) deaths. Only a try alone counts as an attempt (Row.Attempts), and only
// attempts make a dead letter: an event never dies for the company it was in.
// Which rows shared a trial need not be known: those that come together in the
// next one may be from several, each group that dies is halved all the same.
type trial struct {
	d     *destination // nil: there is none
	items []item
	bytes int
	limit int // how many may be in it, by those who are
	// closed: nobody joins any more; it is written when nothing is in flight.
	closed bool
	flush  int64 // the one that writes it down; 0: none yet
	sent   bool
}

// tries is what is recorded of a suspect.
type tries struct{ attempts, together int }

// ownTry is what this process has recorded of a row for a try, and what was
// recorded before. While the process lives nobody has died of it: if its lease
// or its connection is lost and the record is found again, what was before
// counts.
type ownTry struct{ before, written tries }

// ownTries are those of rows that are still parked, by id.
type ownTries map[parkedName]map[int64]ownTry

type parkedName struct{ destination, key string }

// keep forgets the rows of all keys but these.
func (o ownTries) keep(keys []ParkedKey) {
	there := make(map[parkedName]bool, len(keys))
	for _, k := range keys {
		there[parkedName{k.Destination, k.Key}] = true
	}
	maps.DeleteFunc(o, func(n parkedName, _ map[int64]ownTry) bool { return !there[n] })
}

// joinTrial takes a row of a parked key, its head or one behind others of the
// trial, among those that are tried next. It returns false when the trial does
// not take it; then it is read again for the next.
func (m *Machine) joinTrial(d *destination, pk *parkedKey, it item, head bool) bool {
	if !it.row.Suspect {
		it.row.Attempts, it.row.Together = 0, 0 // from now on they count tries nobody survived
	}
	if own, ok := m.ownTries[parkedName{d.name, pk.key}][it.row.ID]; ok && own.written == (tries{it.row.Attempts, it.row.Together}) {
		it.row.Attempts, it.row.Together = own.before.attempts, own.before.together
	}
	if head && it.row.Attempts >= m.cfg.CrashAttempts {
		m.dieCrashing(d, pk, &it)
		return false
	}
	t := &m.sus.trial
	if t.d == nil {
		n, _ := d.allowance(m.now, m.cfg.BatchRows)
		*t = trial{d: d, limit: max(1, n)}
	}
	limit := min(t.limit, m.company(it.row))
	if n := len(t.items); n > 0 && (n >= limit || t.bytes+it.weight > m.cfg.BatchBytes) {
		t.closed = true
		return false
	}
	t.items, t.bytes, t.limit = append(t.items, it), t.bytes+it.weight, limit
	pk.state, pk.doubt = parkedTrial, false
	pk.inHand++
	return true
}

// company is among how many a suspect may be tried: half of those with whom it
// was tried last.
func (m *Machine) company(row Row) int {
	switch {
	case row.Attempts > 0:
		return 1
	case row.Together > 0:
		return (row.Together + 1) / 2
	}
	return m.cfg.BatchRows
}

// planTrial brings the trial on its way. It returns true while other sends must
// wait.
func (m *Machine) planTrial() bool {
	t := &m.sus.trial
	switch {
	case t.d == nil:
		return false
	case t.sent:
		return true
	case t.d.held || m.now.Before(t.d.until):
		m.untried()
		return false
	case !t.closed && (m.asked[askSide] || len(t.items) < t.limit && m.dueKey(t.d) != nil):
		return false // others may join
	}
	t.closed = true
	switch {
	case m.flying > 0 || t.flush > m.flush.committed:
	case t.flush == 0:
		m.writeTrial()
	default:
		// Crash here: each of it is found with the record, and tried among fewer.
		for i := range t.items {
			t.d.keys[t.items[i].key()].state = parkedSending
		}
		items := t.items
		t.items, t.sent = nil, true
		m.send(t.d, items, true)
	}
	return true
}

// writeTrial records the try of all that are in the trial.
func (m *Machine) writeTrial() {
	t := &m.sus.trial
	t.flush = m.flush.seq + 1
	for i := range t.items {
		row := &t.items[i].row
		own := ownTry{before: tries{row.Attempts, row.Together}, written: tries{row.Attempts, len(t.items)}}
		if len(t.items) == 1 {
			own.written.attempts++
		}
		name := parkedName{t.d.name, t.items[i].key()}
		if m.ownTries[name] == nil {
			m.ownTries[name] = make(map[int64]ownTry)
		}
		m.ownTries[name][row.ID] = own
		m.writeTries(t.d, &t.items[i], own.written)
	}
}

func (m *Machine) writeTries(d *destination, it *item, n tries) {
	pk := d.keys[it.key()]
	m.flush.Attempts = append(m.flush.Attempts, Attempt{
		ID: it.row.ID, Destination: d.name, Attempts: n.attempts, Together: n.together, NextAt: laterOf(m.now, pk.due),
		Class: settle.ClassSuspect, Cause: causeSuspect, Suspect: true,
	})
	m.touch(d, pk)
}

// untried ends a trial that can't be sent now.
func (m *Machine) untried() {
	t := m.sus.trial
	m.sus.trial = trial{}
	for i := range t.items {
		pk := t.d.keys[t.items[i].key()]
		pk.due = laterOf(m.now.Add(m.cfg.MaxIdle), t.d.until)
		if t.flush > 0 {
			m.takeBack(t.d, &t.items[i])
		}
		m.handBack(t.d, pk)
	}
}

// takeBack records again what was recorded before a try that was not made, or
// that the process survived without an answer about the event.
func (m *Machine) takeBack(d *destination, it *item) {
	m.writeTries(d, it, tries{it.row.Attempts, it.row.Together})
}

// survived ends a trial: the process lives. What is acknowledged or refused is
// cleared by that.
func (m *Machine) survived(d *destination, items []item, receipts []settle.Receipt) {
	m.sus.trial = trial{}
	for i := range items {
		if receiptError(receipts, i) != nil {
			m.takeBack(d, &items[i])
		}
	}
}

func (m *Machine) dieCrashing(d *destination, pk *parkedKey, it *item) {
	m.die(d, pk, it, failure{
		class: settle.ClassCrashLoop, attempts: it.row.Attempts,
		cause: "the process died each time it was tried alone",
	})
}
