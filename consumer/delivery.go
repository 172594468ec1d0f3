package consumer

import (
	"context"
	"strconv"

	"github.com/settlemq/settle"
)

// delivery is an unanswered call of Sink.Deliver.
type delivery struct {
	id      DeliveryID
	part    settle.Partition
	records []settle.Record
	done    []bool // durable, by index
	open    int    // records that are not
	first   int    // all records before it are done
	busy    bool   // a work in flight has records of it
	suspect int    // records before this index are parked, to be tried alone
	// written holds what is to be written for records that have failed.
	written map[int]settle.Item
	err     error // the answer as soon as it is not busy, unless all is done
}

func (m *Machine) delivered(in Delivered) {
	if m.stopping {
		m.emit(Complete{ID: in.ID, Err: ErrStopping})
		return
	}
	if len(in.Records) == 0 {
		m.emit(Complete{ID: in.ID})
		return
	}
	m.stats.Received += int64(len(in.Records))
	d := &delivery{
		id: in.ID, part: in.Partition, records: in.Records,
		done: make([]bool, len(in.Records)), open: len(in.Records),
	}
	if p := m.parts[partName{d.part.Topic, d.part.Number}]; p != nil && p.epoch == d.part.Epoch {
		d.suspect = min(p.suspects, len(d.records))
		p.suspects -= d.suspect
	}
	if d.part.Epoch == 0 {
		m.roll.wanted = true
	}
	m.queue = append(m.queue, d)
}

func (m *Machine) withdrawn(in Withdrawn) {
	for _, d := range m.queue {
		if d.id == in.ID {
			m.abandon(d, context.Canceled)
			return
		}
	}
}

func (m *Machine) lost(in Lost) {
	delete(m.parts, partName{in.Topic, in.Number})
	for _, d := range m.queue {
		if d.part.Topic == in.Topic && d.part.Number == in.Number {
			m.abandon(d, settle.ErrFenced)
			return
		}
	}
}

// abandon answers d with err, as soon as nothing of it is in flight.
func (m *Machine) abandon(d *delivery, err error) {
	if d.err == nil {
		d.err = err
	}
	if !d.busy {
		m.complete(d)
	}
}

// release takes d out of a work that has ended and answers it if it can.
func (m *Machine) release(d *delivery) {
	d.busy = false
	d.advance()
	switch {
	case d.open == 0:
		d.err = nil
		m.complete(d)
	case d.err != nil:
		m.complete(d)
	case m.stopping:
		d.err = ErrStopping
		m.complete(d)
	}
}

func (m *Machine) complete(d *delivery) {
	for i, q := range m.queue {
		if q == d {
			m.queue = append(m.queue[:i], m.queue[i+1:]...)
			break
		}
	}
	if d.err != nil && d.suspect > 0 {
		m.returnSuspects(d)
	}
	m.emit(Complete{ID: d.id, Err: d.err})
}

// returnSuspects remembers that the records which were not written down will
// come again and are still suspect.
func (m *Machine) returnSuspects(d *delivery) {
	p := m.parts[partName{d.part.Topic, d.part.Number}]
	if p == nil || p.epoch != d.part.Epoch {
		return
	}
	for _, done := range d.done[:d.suspect] {
		if !done {
			p.suspects++
		}
	}
}

func (d *delivery) advance() {
	for d.first < len(d.done) && d.done[d.first] {
		d.first++
	}
}

func (d *delivery) markDone(i int) {
	if !d.done[i] {
		d.done[i] = true
		d.open--
		delete(d.written, i)
	}
}

// write sets what is to be written for record i instead of handling it.
func (d *delivery) write(i int, it settle.Item) {
	if d.written == nil {
		d.written = make(map[int]settle.Item)
	}
	d.written[i] = it
}

// floor returns the position that is done once records up to i are.
func (d *delivery) floor(i int) settle.FloorMove {
	for i+1 < len(d.done) && d.done[i+1] {
		i++
	}
	r := &d.records[i]
	to := settle.Floor{Generation: d.part.Generation, Position: r.Position}
	if r.Event != nil { // what can't be decoded has no id, whatever its headers say
		to.EventID = r.Event.ID
	}
	return settle.FloorMove{Partition: d.part, To: to}
}

func partitionName(p settle.Partition) string { return p.Topic + "." + strconv.Itoa(p.Number) }

// keyOf returns what orders a record among others.
func keyOf(r *settle.Record) string {
	if r.Event != nil {
		return r.Event.AggregateID
	}
	return r.Key
}
