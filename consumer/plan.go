package consumer

import (
	"fmt"

	"github.com/settlemq/settle"
)

// admission is the answer to "may this go into the work?".
type admission int

const (
	taken     admission = iota
	heldBack            // not now; nor what comes behind it in its partition
	workFull            // nothing more goes into this work
	takenLast           // it was taken, and the work is full
)

// planDeliveries makes a work of what waits, oldest delivery first. It returns
// false when nothing can be done.
func (m *Machine) planDeliveries() bool {
	w := m.newWork()
	for _, d := range m.queue {
		if d.busy || d.err != nil || d.part.Epoch == 0 && !m.roll.known {
			continue
		}
		if m.fill(w, d) {
			break
		}
	}
	if len(w.items) == 0 {
		m.discard(w)
		return false
	}
	m.issue(w)
	return true
}

// fill takes records of d into w and reports whether w is full.
func (m *Machine) fill(w *work, d *delivery) bool {
	for i := d.first; i < len(d.records); i++ {
		if d.done[i] {
			continue
		}
		switch m.admit(w, d, i) {
		case heldBack:
			return false
		case workFull:
			return true
		case takenLast:
			return true
		}
	}
	return false
}

func (m *Machine) admit(w *work, d *delivery, i int) admission {
	r := &d.records[i]
	if m.keyBusy(r) {
		return heldBack
	}
	if len(w.items) >= m.store.rows || len(w.items) > 0 && w.bytes+len(r.Raw) > m.cfg.BatchBytes {
		return workFull
	}
	it := m.plan(d, i)
	answer := taken
	if it.Intent == settle.IntentHandle {
		if answer = m.admitCall(w, m.kinds[r.Event.Type]); answer == heldBack || answer == workFull {
			return answer
		}
	}
	w.add(ref{d, i}, it, len(r.Raw))
	return answer
}

// admitCall decides whether a handler of kind k may be called in w.
func (m *Machine) admitCall(w *work, k *kind) admission {
	single := k.rule.External || k.gate.half()
	switch {
	case k.gate.held(m.now), single && len(w.items) > 0:
		return heldBack
	case w.calls > 0 && (w.batch != nil || k.rule.Batch) && w.batch != k:
		return heldBack
	case k.rule.Batch && w.calls >= k.rows:
		return workFull
	case w.calls > 0 && w.cost+k.each > m.cfg.MaxBatchTime:
		return workFull
	case !m.bucket.take():
		return workFull
	}
	w.calls++
	w.cost += k.each
	if k.rule.Batch {
		w.batch = k
	}
	w.alone = k.rule.External
	if k.gate.half() {
		w.probe = k
	}
	if single {
		return takenLast
	}
	return taken
}

// plan says what is to be done with a record.
func (m *Machine) plan(d *delivery, i int) settle.Item {
	r := &d.records[i]
	if it, ok := d.written[i]; ok {
		return it
	}
	it, k := m.triage(*r, false)
	switch {
	case k == nil:
	case i < d.suspect, d.part.Epoch == 0 && m.roll.suspects(r.Event.ID, m.cfg.SuspectAfter):
		it.Intent, it.NextAt, it.Class = settle.IntentPark, m.now, settle.ClassSuspect
		it.Cause = "was in hand when a process died; is tried alone"
	default:
		it.Attempt = 1
	}
	return it
}

// triage says what is to be done with a record whatever its history; k is nil
// when its handler is not to be called.
func (m *Machine) triage(r settle.Record, compensate bool) (it settle.Item, k *kind) {
	it.Record, it.Compensate = r, compensate
	if r.Event == nil {
		it.Intent, it.Class = settle.IntentDie, settle.ClassDecode
		it.Cause = "record has no event"
		if r.DecodeErr != nil {
			it.Cause = r.DecodeErr.Error()
		}
		return it, nil
	}
	k = m.kindOf(r.Event.Type, compensate)
	if k == nil && compensate {
		it.Intent, it.Class = settle.IntentDie, settle.ClassPermanent
		it.Cause = "group " + m.group + " has no compensation for event type " + r.Event.Type
		return it, nil
	}
	if k == nil {
		it.Intent = settle.IntentIgnore
		return it, nil
	}
	if r.Event.Version > k.rule.MaxVersion {
		it.Intent, it.Class = settle.IntentDie, settle.ClassVersion
		it.Cause = (&VersionError{Version: r.Event.Version, MaxVersion: k.rule.MaxVersion}).Error()
		return it, nil
	}
	if m.keyPaused(r.Event.AggregateID) {
		it.Intent, it.Class, it.NextAt = settle.IntentPark, settle.ClassPaused, m.now.Add(pausedWait)
		it.Cause = "key is paused"
		return it, nil
	}
	it.Intent = settle.IntentHandle
	if m.cfg.EffectKey != nil && !compensate { // what is given up has no effect to key
		if err := m.effectKey(&it); err != nil {
			it.Intent, it.Class, it.Cause = settle.IntentDie, settle.ClassPanic, err.Error()
			return it, nil
		}
	}
	return it, k
}

// effectKey asks the caller's function, which must not end the machine.
func (m *Machine) effectKey(it *settle.Item) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("effect key of event: panicked: %v", v)
		}
	}()
	it.EffectKey = m.cfg.EffectKey(it.Record.Event)
	return nil
}

func (m *Machine) keyPaused(key string) bool {
	if m.controls.keys == nil {
		return false
	}
	_, yes := m.controls.keys[key]
	return yes
}
