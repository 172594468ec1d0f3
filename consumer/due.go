package consumer

import (
	"strconv"
	"time"

	"github.com/settlemq/settle"
)

// dueList is what was loaded from the retry store and is not dealt with yet.
// It is worked off before more is loaded.
type dueList struct {
	items   []dueEvent
	loading bool
	at      time.Time
	// progress is true when rows went: what was behind them may be due now.
	progress bool
	// wrote is true when anything was tried or written down. A round in which
	// all is held (an open breaker) must not be followed by the same at once.
	wrote bool
}

// dueEvent is one event of the list.
//
// An event that may kill the process is tried alone, and its attempt is
// written down first: one that has failed before, and one that was in hand
// when a process died. Several of the former may be in flight at a time, of
// different keys; of the latter there is one, so that if the process dies again
// nobody else is blamed. The others are tried many at a time, and are marked as
// suspects first, so that if the process dies of one of them they are tried
// alone the next time.
type dueEvent struct {
	loaded settle.Item
	// attempt is the number of the attempt that was written down.
	attempt int
	// written is true once the attempt, or the mark, is durable.
	written bool
	// out is what is to be written instead of trying.
	out *settle.Item
	// blamed is true when out is because of a transaction that came to nothing.
	blamed bool
	// flying is true while a work in flight has it.
	flying bool
	// gone is true when nothing more is to be done now.
	gone bool
}

func (x *dueEvent) careful() bool {
	return x.loaded.Attempt > 0 || x.loaded.Class == settle.ClassSuspect
}

// restored is the row as it was, due at the given time: no attempt was made.
func (x *dueEvent) restored(at time.Time) *settle.Item {
	it := x.loaded
	it.Intent, it.NextAt = settle.IntentPark, at
	return &it
}

// named is it with what names its row.
func (x *dueEvent) named(it settle.Item) settle.Item {
	it.RetryID, it.AcceptDuplicate = x.loaded.RetryID, x.loaded.AcceptDuplicate
	return it
}

func (m *Machine) dueLoaded(in DueLoaded) {
	m.due.loading = false
	if in.Err != nil {
		m.storeDown(in.Err, false)
		return
	}
	m.storeUp(false)
	m.due.at = m.now.Add(m.cfg.RetryPoll)
	if next := in.Due.Next; !next.IsZero() {
		if len(in.Due.Items) == 0 && !next.After(m.now) {
			next = m.now.Add(clockWait)
		}
		m.due.soon(next)
	}
	for _, it := range in.Due.Items {
		m.due.items = append(m.due.items, dueEvent{loaded: it})
	}
}

// clockWait is how long the store is left alone when it has nothing due yet by
// its own clock, which is behind ours.
const clockWait = 20 * time.Millisecond

// soon makes sure that the store is looked at when t has come.
func (l *dueList) soon(t time.Time) { l.at = earliest(l.at, t) }

// planDue makes a work of due events, in order per key. It returns false when
// nothing can be done.
func (m *Machine) planDue() bool {
	l := &m.due
	if len(l.items) == 0 {
		return false
	}
	w := m.newWork()
	var passed map[string]struct{} // keys with an event that has to wait
	for i := range l.items {
		x := &l.items[i]
		key := keyOf(&x.loaded.Record)
		if _, wait := passed[key]; x.gone || wait {
			continue
		}
		answer := heldBack
		if !x.flying {
			answer = m.admitDue(w, i)
		}
		if answer == workFull || answer == takenLast {
			break
		}
		if answer == heldBack && !m.cfg.Pass {
			if passed == nil {
				passed = make(map[string]struct{})
			}
			passed[key] = struct{}{}
		}
	}
	if len(w.items) == 0 {
		m.discard(w)
		m.dueEnded()
		return false
	}
	l.wrote = true
	m.issue(w)
	return true
}

// admitDue adds the event to w if it may go there: works that write down and
// works that handle are not mixed.
func (m *Machine) admitDue(w *work, i int) admission {
	x := &m.due.items[i]
	r := &x.loaded.Record
	if m.keyBusy(r) || x.loaded.Class == settle.ClassSuspect && m.due.suspectFlies() {
		return heldBack
	}
	if len(w.items) >= m.store.rows || len(w.items) > 0 && w.bytes+len(r.Raw) > m.cfg.BatchBytes {
		return workFull
	}
	it, k := m.triage(*r, x.loaded.Compensate)
	if x.out == nil {
		m.decideDue(i, it, k)
	}
	if x.gone {
		return heldBack
	}
	want, single := stageRecord, false
	switch {
	case x.out != nil:
		it = *x.out
	case x.written:
		want, single = stageHandle, x.careful()
		it.Attempt = x.attempt
	default:
		single = x.careful()
		it = m.attemptOf(x)
	}
	if len(w.items) > 0 && (w.stage != want || single) {
		return heldBack
	}
	answer := taken
	if want == stageHandle {
		if answer = m.admitCall(w, k); answer == heldBack || answer == workFull {
			return answer
		}
	}
	w.stage = want
	w.add(ref{i: i}, x.named(it), len(r.Raw))
	if single {
		return takenLast
	}
	return answer
}

// decideDue finds out whether the event is to be tried at all. it and k are
// its triage.
func (m *Machine) decideDue(i int, it settle.Item, k *kind) {
	x := &m.due.items[i]
	switch {
	case k == nil && it.Class == settle.ClassPermanent: // can't be compensated
		it.Cause += "; before that: " + x.loaded.Cause
		m.due.fail(i, it, m.cfg.Pass)
	case k == nil: // not handled any more, undecodable, paused
		it.Attempt = x.loaded.Attempt
		x.out = &it
		if it.Intent == settle.IntentPark {
			if it.Attempt > 0 { // why it failed matters more
				it.Class, it.Cause = x.loaded.Class, x.loaded.Cause
			}
			m.due.drop(i+1, keyOf(&it.Record))
		}
	case k.gate.held(m.now) && !k.gate.probing:
		m.due.takeBack(i, k.gate.until)
	case x.loaded.Attempt > 0 && !x.written:
		if _, again := m.cfg.Retry.Next(it.Record.Event.ID, x.loaded.Attempt, nil); again {
			return
		}
		it.Intent, it.Class, it.Attempt = settle.IntentDie, settle.ClassCrashLoop, x.loaded.Attempt
		it.Cause = "the process died in attempt " + strconv.Itoa(it.Attempt) + "; before that: " + x.loaded.Cause
		m.due.fail(i, it, m.cfg.Pass)
	}
}

// attemptOf is what is written down before the event is handled.
func (m *Machine) attemptOf(x *dueEvent) settle.Item {
	it := x.loaded
	it.Intent, it.NextAt = settle.IntentPark, m.now
	if !x.careful() {
		it.Class = settle.ClassSuspect
		return it
	}
	it.Attempt++
	if wait, again := m.cfg.Retry.Next(it.Record.Event.ID, it.Attempt, nil); again {
		it.NextAt = m.now.Add(wait) // should it die of it, others have that long
	}
	return it
}

// durable notes that item it, made of event i, has a durable verdict.
func (l *dueList) durable(i int, s stage, it *settle.Item, v settle.Verdict) {
	x := &l.items[i]
	if s == stageRecord && x.out == nil && (v == settle.VerdictParked || v == settle.VerdictBlocked) {
		x.written, x.attempt = true, max(it.Attempt, 1)
		return
	}
	x.gone = true
	switch v {
	case settle.VerdictParked, settle.VerdictBlocked, settle.VerdictStored, settle.VerdictSequenceGap, settle.VerdictLeftOver:
	default:
		l.progress = true
	}
}

// fail sets what is to be written for event i, whose attempt has failed, and
// leaves what is behind it for later.
func (l *dueList) fail(i int, out settle.Item, pass bool) {
	l.items[i].out = &out
	if !pass {
		l.drop(i+1, keyOf(&out.Record))
	}
}

// takeBack makes event i due at the given time, as if it had not been tried.
func (l *dueList) takeBack(i int, at time.Time) {
	x := &l.items[i]
	if x.written {
		x.out = x.restored(at)
	} else {
		x.gone = true
	}
	l.drop(i+1, keyOf(&x.loaded.Record))
}

// drop leaves events of key from index i on for later.
func (l *dueList) drop(i int, key string) {
	for ; i < len(l.items); i++ {
		if x := &l.items[i]; keyOf(&x.loaded.Record) == key && x.out == nil {
			x.gone = true
		}
	}
}

// dueEnded forgets the list once all of it is dealt with.
func (m *Machine) dueEnded() {
	l := &m.due
	if len(l.items) == 0 {
		return
	}
	for i := range l.items {
		if x := &l.items[i]; !x.gone || x.flying {
			return
		}
	}
	clear(l.items)
	l.items = l.items[:0]
	switch {
	case l.progress:
		l.at = m.now
	case !l.wrote:
		l.at = m.now.Add(m.cfg.RetryPoll)
	}
	l.progress, l.wrote = false, false
}

// lastWords writes down what must not be left as it is when the consumer
// stops: outcomes of attempts, and attempts that were recorded but not made.
func (m *Machine) lastWords() {
	w := m.newWork()
	for i := range m.due.items {
		x := &m.due.items[i]
		if x.out == nil && x.written && x.careful() && !x.gone {
			x.out = x.restored(m.now)
		}
		if x.out != nil && !x.gone && len(w.items) < m.cfg.BatchRows {
			w.stage = stageRecord
			w.add(ref{i: i}, x.named(*x.out), len(x.out.Record.Raw))
		}
	}
	if len(w.items) == 0 {
		m.discard(w)
		return
	}
	m.issue(w)
}

// suspectFlies reports whether an event is being tried that was in hand when a
// process died.
func (l *dueList) suspectFlies() bool {
	for i := range l.items {
		if x := &l.items[i]; x.flying && x.loaded.Class == settle.ClassSuspect {
			return true
		}
	}
	return false
}

// fly notes that a work has some of the list, or has it no more.
func (l *dueList) fly(w *work, yes bool) {
	for _, r := range w.refs {
		if r.d == nil {
			l.items[r.i].flying = yes
		}
	}
}
