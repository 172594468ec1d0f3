package sim

import (
	"errors"
	"slices"

	"github.com/settlemq/settle/relay"
)

var errNumber = errors.New("checkpoint number is not above the last one of its epoch")

// errConflict is what a transaction comes to that others were in the way of.
var errConflict = errors.New("another transaction was in the way")

// Commit implements relay.Store: all of f, or nothing.
func (o *outboxModel) Commit(l relay.Lease, f relay.Flush) error {
	if err := o.holds(l); err != nil {
		return err
	}
	if newest := o.lanes[l.Lane].newest(); newest.epoch == l.Epoch && f.Checkpoint.Number <= newest.Number {
		return errNumber
	}
	if o.conflict() {
		return errConflict
	}
	o.writeSides(leader{l.Lane, l.Epoch}, f)
	o.writeCheckpoint(l, f)
	o.flush()
	o.check.places()
	return nil
}

func (o *outboxModel) writeCheckpoint(l relay.Lease, f relay.Flush) {
	lane := o.lanes[l.Lane]
	c := storedCheckpoint{l.Epoch, f.Checkpoint}
	c.Readers = cloneReaders(c.Readers)
	o.check.checkpoint(lane, c)
	if c.epoch > lane.latest.epoch || (c.epoch == lane.latest.epoch && c.Number > lane.latest.Number) {
		lane.latest = c
	}
	o.decide(lane, c.Readers)
	if len(c.Readers) > 1 {
		o.w.probes.hit("destination reads for itself")
	}
	o.w.hist.note(o.w.Since(), o.name, "checkpoint", l.Lane, l.Epoch, c.Number, c.Readers)
}

func (o *outboxModel) writeSides(by leader, f relay.Flush) {
	for _, s := range f.Sent {
		o.leave(s.ID, s.Destination, s.From, s.Share)
		o.coordinates[s.ID] = s.At
		o.check.acknowledged(s)
	}
	for _, p := range f.Park {
		o.park(by, p)
	}
	for _, a := range f.Attempts {
		o.attempt(by, a)
	}
	for _, d := range f.Dead {
		o.die(d)
	}
	for _, d := range f.Delay {
		o.addDelay(d)
	}
	for _, id := range f.Cold {
		o.chill(id)
	}
	for _, s := range f.Skip {
		o.leave(s.ID, s.Destination, s.From, s.Share)
		if r := o.row(s.ID); r != nil {
			r.done, r.passed = true, true
			r.giveUp(s.Destination)
		}
		o.w.probes.hit("event skipped")
	}
}

// leave deletes the row of a side table that a row came from; for a parked key
// deleting the last one unparks it.
func (o *outboxModel) leave(id int64, destination string, from relay.Origin, share *relay.Share) {
	switch {
	case from == relay.FromParked:
		o.unpark(id, destination)
	case o.leaveShare(id, destination, from, share):
	case from == relay.FromDelayed:
		o.delayed = slices.DeleteFunc(o.delayed, func(d relay.Delay) bool { return d.ID == id })
		o.w.probes.hit("delayed event done")
	case from == relay.FromExtra:
		o.extra = slices.DeleteFunc(o.extra, func(x int64) bool { return x == id })
		o.w.probes.hit("late row done")
	}
}

func (o *outboxModel) unpark(id int64, destination string) {
	before := len(o.parked)
	key := ""
	o.parked = slices.DeleteFunc(o.parked, func(p parkedRow) bool {
		if p.ID == id && p.Destination == destination {
			key = p.Key
			return true
		}
		return false
	})
	if before == len(o.parked) {
		return
	}
	for _, d := range o.dead {
		if d.ID == id && d.Destination == destination {
			d.open = false
		}
	}
	if o.parkedHead(destination, key) == nil {
		o.w.probes.hit("parked key drained")
	}
}

func (o *outboxModel) parkedHead(destination, key string) *parkedRow {
	for i := range o.parked {
		if p := &o.parked[i]; p.Destination == destination && p.Key == key {
			return p
		}
	}
	return nil
}

func (o *outboxModel) parkedRow(id int64, destination string) *parkedRow {
	for i := range o.parked {
		if p := &o.parked[i]; p.ID == id && p.Destination == destination {
			return p
		}
	}
	return nil
}

func (o *outboxModel) park(by leader, p relay.Park) {
	o.leaveOther(p.ID, p.Destination, p.From, p.Share)
	if old := o.parkedRow(p.ID, p.Destination); old != nil {
		if !o.row(p.ID).late && !o.w.goesOnceMore() {
			o.w.fail("one place", "row %d is parked twice at %s", p.ID, p.Destination)
		}
		old.Park, old.by = p, by
		return
	}
	o.parkNo++
	o.parked = append(o.parked, parkedRow{Park: p, no: o.parkNo, by: by})
	o.w.probes.hit("row parked")
	if p.Suspect {
		o.w.probes.hit("row parked as suspect")
	}
}

// leaveOther takes a row out of the side table that it leaves for another.
func (o *outboxModel) leaveOther(id int64, destination string, from relay.Origin, share *relay.Share) {
	switch {
	case o.leaveShare(id, destination, from, share):
	case from == relay.FromDelayed:
		o.delayed = slices.DeleteFunc(o.delayed, func(d relay.Delay) bool { return d.ID == id })
	case from == relay.FromExtra:
		o.extra = slices.DeleteFunc(o.extra, func(x int64) bool { return x == id })
	}
}

func (o *outboxModel) attempt(by leader, a relay.Attempt) {
	p := o.parkedRow(a.ID, a.Destination)
	if p == nil {
		return
	}
	switch {
	case !a.Suspect:
		p.alone = nil
	case a.Together == 1 && a.Attempts > p.Attempts && !slices.Contains(p.alone, by):
		p.alone = append(p.alone, by)
	case a.Attempts < p.Attempts:
		p.alone = slices.DeleteFunc(p.alone, func(l leader) bool { return l == by })
	}
	if a.Suspect {
		o.w.probes.hit("try written down before it is made")
	}
	if a.Together > 1 {
		o.w.probes.hit("try written down for several together")
	}
	if a.Together > 0 && a.Together < p.together {
		o.w.probes.hit("try written down among fewer than before")
	}
	p.Attempts, p.NextAt, p.Class, p.Cause, p.Suspect = a.Attempts, a.NextAt, a.Class, a.Cause, a.Suspect
	p.together, p.by = a.Together, by
	o.w.check.attempts("relay", o.row(a.ID).event.ID, a.Attempts)
}

func (o *outboxModel) die(d relay.Death) {
	o.w.probes.hit("relay dead letter")
	o.check.death(d)
	if r := o.row(d.ID); r != nil && d.Unblock {
		r.passed = true
	}
	p := o.parkedRow(d.ID, d.Destination)
	if p == nil {
		o.w.fail("one place", "row %d dies at %s, where it is not parked", d.ID, d.Destination)
	}
	o.dead = append(o.dead, &deadRow{d, true})
	p.dead, p.Attempts = true, d.Attempts
	if d.Unblock {
		o.parked = slices.DeleteFunc(o.parked, func(x parkedRow) bool { return x.ID == d.ID && x.Destination == d.Destination })
	}
}

func (o *outboxModel) addDelay(d relay.Delay) {
	o.leaveOther(d.ID, d.Destination, d.From, d.Share)
	if o.joinDelayed(d) {
		return
	}
	if slices.ContainsFunc(o.delayed, func(x relay.Delay) bool { return x.ID == d.ID }) {
		if !o.row(d.ID).late {
			o.w.fail("one place", "row %d is delayed twice", d.ID)
		}
		return
	}
	o.delayed = append(o.delayed, d)
	slices.SortFunc(o.delayed, func(a, b relay.Delay) int {
		if c := a.Due.Compare(b.Due); c != 0 {
			return c
		}
		return int(a.ID - b.ID)
	})
	o.w.probes.hit("event delayed")
}

// chill records a cold hole.
func (o *outboxModel) chill(id int64) {
	o.w.probes.hit("hole turned cold")
	o.check.cold(id)
	if i, found := slices.BinarySearch(o.gap, id); !found {
		o.gap = slices.Insert(o.gap, i, id)
	}
}
