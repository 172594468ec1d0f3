package consumer

import (
	"time"

	"github.com/settlemq/settle"
)

// work is an Apply that is being planned or is in flight.
type work struct {
	id    WorkID
	items []settle.Item
	refs  []ref // where each item came from
	bytes int
	cost  time.Duration // what its handlers are expected to take
	calls int           // items to handle
	batch *kind         // the batch handler that takes them, if any
	alone bool
	probe *kind // the half-open breaker that it probes, if any
	stage stage
}

// ref says where an item came from: a record of a delivery, or the list of due
// events (d is nil).
type ref struct {
	d *delivery
	i int
}

// stage is what a work means for the due events in it.
type stage int

const (
	stageHandle stage = iota
	stageRecord       // their attempts are written down before they are made
)

// newWork returns an empty work; works are used again, so that a busy group
// does not allocate one for each transaction.
func (m *Machine) newWork() *work {
	if n := len(m.spare); n > 0 {
		w := m.spare[n-1]
		m.spare = m.spare[:n-1]
		return w
	}
	return &work{}
}

func (m *Machine) discard(w *work) {
	clear(w.items)
	clear(w.refs)
	*w = work{items: w.items[:0], refs: w.refs[:0]}
	m.spare = append(m.spare, w)
}

func (w *work) add(r ref, it settle.Item, size int) {
	w.items = append(w.items, it)
	w.refs = append(w.refs, r)
	w.bytes += size
}

// issue sends w off.
func (m *Machine) issue(w *work) {
	m.lastWork++
	w.id = m.lastWork
	var floors []settle.FloorMove
	for i, r := range w.refs {
		if r.d == nil {
			continue
		}
		r.d.busy = true
		last := i+1 == len(w.refs) || w.refs[i+1].d != r.d
		if last && r.d.part.Epoch > 0 {
			floors = append(floors, r.d.floor(r.i))
		}
	}
	if m.busy != nil {
		for i := range w.items {
			m.busy[keyOf(&w.items[i].Record)] = struct{}{}
		}
	}
	if w.probe != nil {
		w.probe.gate.probing = true
	}
	m.due.fly(w, true)
	m.flight = append(m.flight, w)
	cmd := Apply{ID: w.id, Alone: w.alone, Work: settle.Work{
		Group: m.group, Items: w.items, Floors: floors, Pass: m.cfg.Pass,
		OrderedBySeq: m.cfg.OrderedBySeq, GapTimeout: m.cfg.GapTimeout, TakeoverAfter: m.cfg.TakeoverAfter,
	}}
	if w.batch != nil && w.calls > 0 {
		cmd.Batch = w.batch.name
	}
	if r := w.refs[0]; r.d != nil && r.d.part.Epoch == 0 && w.calls > 0 {
		cmd.Hold = m.roll.watches(m.now, m.cfg.SuspectAfter)
	}
	m.emit(cmd)
}

// land takes the work with this id out of flight; nil if it is not known.
func (m *Machine) land(id WorkID) *work {
	for i, w := range m.flight {
		if w.id != id {
			continue
		}
		m.flight = append(m.flight[:i], m.flight[i+1:]...)
		if m.busy != nil {
			for i := range w.items {
				delete(m.busy, keyOf(&w.items[i].Record))
			}
		}
		if w.probe != nil {
			w.probe.gate.probing = false
		}
		m.due.fly(w, false)
		return w
	}
	return nil
}

// keyBusy reports whether another work has this key.
func (m *Machine) keyBusy(r *settle.Record) bool {
	if len(m.busy) == 0 {
		return false
	}
	_, yes := m.busy[keyOf(r)]
	return yes
}
