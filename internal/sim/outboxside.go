package sim

import (
	"slices"
	"strconv"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

// Side implements relay.Store.
func (o *outboxModel) Side(lane *laneModel, q relay.SideQuery) relay.SidePage {
	p := sidePage{o: o, max: q.MaxRows, maxBytes: q.MaxBytes}
	switch q.Side {
	case relay.SideParked:
		for i := range o.parked {
			r := &o.parked[i]
			if r.Destination != q.Destination || r.Key != q.Key {
				continue
			}
			if r.dead || !p.add(r.ID, relay.Row{Attempts: r.Attempts, ParkNo: r.no, MessageID: r.MessageID, Together: r.together, Suspect: r.Suspect}) {
				return p.SidePage
			}
		}
	case relay.SideDelayed:
		for _, d := range o.delayed {
			owed := o.shares.delayed[d.ID]
			if o.shares.held(q.Held, d.Destination, owed) || !lane.Owns(d.Key) {
				continue
			}
			if d.Due.After(q.Now) || !p.add(d.ID, relay.Row{Destination: d.Destination, Owed: owed}) {
				p.Next = d.Due
				break
			}
		}
	case relay.SideExtra:
		for _, id := range o.extra {
			if r := o.row(id); r.event != nil && slices.Contains(q.Held, r.event.Topic) || id <= q.After || !lane.Owns(o.keyOf(id)) {
				continue
			}
			if !p.add(id, relay.Row{MessageID: o.again[id], Owed: o.shares.extra[id]}) {
				break
			}
		}
	}
	return p.SidePage
}

type sidePage struct {
	relay.SidePage
	o                    *outboxModel
	max, maxBytes, bytes int
}

func (p *sidePage) add(id int64, r relay.Row) bool {
	row := p.o.visible(id)
	if row != nil {
		p.bytes += len(row.event.Payload)
	}
	if len(p.Rows) == p.max || (p.bytes > p.maxBytes && len(p.Rows) > 0) {
		p.More = true
		return false
	}
	if r.ID = id; row == nil {
		r.Gone = true
		e := p.o.row(id).event
		r.Event = &settle.Event{ID: e.ID, Type: e.Type, AggregateID: e.AggregateID, Topic: e.Topic}
	} else {
		base := p.o.asRow(row)
		r.Event, r.Defect = base.Event, base.Defect
	}
	p.Rows = append(p.Rows, r)
	return true
}

// Sweep implements relay.Store: cold holes that have a row after all.
func (o *outboxModel) Sweep(l relay.Lease, limit int) (int, error) {
	if err := o.holds(l); err != nil {
		return 0, err
	}
	found, lane := 0, o.lanes[l.Lane]
	o.gap = slices.DeleteFunc(o.gap, func(id int64) bool {
		r := o.visible(id)
		if found == limit || r == nil || !lane.Owns(r.event.AggregateID) {
			return false
		}
		if lane.Of > 1 && o.ahead(lane, r) {
			return false
		}
		if lane.Of > 1 && o.elsewhereDone(r) && !outboxlog.HasLists(lane.newest().Readers) {
			o.w.probes.hit("row of a cold hole that its lane has dealt with")
			return true
		}
		found++
		o.shares.listed[id] = true
		i, _ := slices.BinarySearch(o.extra, id)
		o.extra = slices.Insert(o.extra, i, id)
		o.w.probes.hit("late row found")
		o.w.hist.note(o.w.Since(), o.name, "late row", id)
		return true
	})
	o.flush()
	o.check.places()
	return found, nil
}

// ahead reports whether the lane's reader is still to come to a row: another
// lane had given its id up first.
func (o *outboxModel) ahead(lane *laneModel, r *outboxRow) bool {
	return !lane.read(r.id, r.event.Topic)
}

// elsewhereDone reports whether a row whose id another lane had given up was
// sent, or recorded, by the one that owns it.
func (o *outboxModel) elsewhereDone(r *outboxRow) bool {
	p := o.placesOf(r)
	_, sent := o.coordinates[r.id]
	return sent || r.done || p.parked || p.delayed || p.extra || p.dead
}

// Retain implements relay.Store.
func (o *outboxModel) Retain(l relay.Lease, before time.Time, limit int) (int, error) {
	if err := o.holds(l); err != nil {
		return 0, err
	}
	n := 0
	for _, r := range o.rows {
		if r == nil || n == limit || r.state != rowVisible || !r.event.AppendedAt.Before(before) || !o.settled(r) || !o.seenByAll(r.id) {
			continue
		}
		r.state = rowDeleted
		n++
		o.w.probes.hit("row deleted by retention")
		o.check.retained(r)
	}
	o.check.places()
	return n, nil
}

// settled reports whether the log and the side tables say that r is done.
func (o *outboxModel) settled(r *outboxRow) bool {
	p := o.placesOf(r)
	return p.read && !p.parked && !p.delayed && !p.extra && !p.gap && !p.dead
}

// places says where an event is, by the tables alone.
type places struct {
	read                   bool // at or below its reader's cursor and not open
	parked, delayed, extra bool
	gap, dead              bool
	passed                 bool // by the cursor, whatever its destination has reached
}

func (o *outboxModel) placesOf(r *outboxRow) places {
	lane := o.ownerOf(r.event.AggregateID)
	var p places
	p.read, p.passed = lane.read(r.id, r.event.Topic), lane.read(r.id, "")
	p.passed = p.passed || p.read
	p.parked = slices.ContainsFunc(o.parked, func(p parkedRow) bool { return p.ID == r.id })
	p.delayed = slices.ContainsFunc(o.delayed, func(d relay.Delay) bool { return d.ID == r.id })
	_, p.extra = slices.BinarySearch(o.extra, r.id)
	_, p.gap = slices.BinarySearch(o.gap, r.id)
	p.dead = slices.ContainsFunc(o.dead, func(d *deadRow) bool { return d.ID == r.id && d.open })
	return p
}

// seenByAll reports whether no lane is still to come to an id.
func (o *outboxModel) seenByAll(id int64) bool {
	return !slices.ContainsFunc(o.active().lanes, func(l *laneModel) bool { return !l.read(id, "") })
}

// read reports whether the lane's reader that serves topic has passed id.
func (l *laneModel) read(id int64, topic string) bool {
	c := l.newest()
	var of *relay.Reader
	for i := range c.Readers {
		if r := &c.Readers[i]; r.Destination == topic || (r.Destination == "" && of == nil) {
			of = r
		}
	}
	if of == nil || id > of.Cursor {
		return false
	}
	return !slices.Contains(of.Open, id)
}

// Replay is a person making a dead letter of the relay due again, in its old
// place.
func (o *outboxModel) Replay(d *deadRow) {
	p := o.parkedRow(d.ID, d.Destination)
	if p == nil {
		o.Discard(d)
		return
	}
	o.controls.Version++
	o.w.probes.hit("relay dead letter replayed")
	o.w.hist.note(o.w.Since(), "operator", "replays", d.ID)
	d.open = false
	p.dead, p.Attempts, p.alone, p.NextAt = false, 0, nil, o.w.dbNow()
	p.Suspect = p.Suspect || p.Class == settle.ClassCrashLoop
}

// Discard is a person closing a dead letter of the relay for good.
func (o *outboxModel) Discard(d *deadRow) {
	o.controls.Version++
	d.open = false
	o.w.probes.hit("relay dead letter discarded")
	o.w.hist.note(o.w.Since(), "operator", "discards", d.ID)
	if r := o.row(d.ID); r != nil {
		r.done, r.passed = true, true
		r.giveUp(d.Destination)
	}
	o.parked = slices.DeleteFunc(o.parked, func(p parkedRow) bool { return p.ID == d.ID && p.Destination == d.Destination })
}

// Order is a person pausing or resuming something.
func (o *outboxModel) Order(c settle.Control, paused bool) {
	o.controls.Version++
	o.controls.Rows = slices.DeleteFunc(o.controls.Rows, func(x settle.Control) bool { return x == c })
	if paused {
		o.controls.Rows = append(o.controls.Rows, c)
	}
	o.w.hist.note(o.w.Since(), "operator", "orders", c.Kind, c.Name, paused)
}

// SkipEvent is a person asking the relay to pass one event.
func (o *outboxModel) SkipEvent(id string) {
	o.controls.Version++
	o.controls.Skips = append(o.controls.Skips, id)
	if r := o.byEvent[id]; r != nil {
		r.passed = true
	}
	o.w.hist.note(o.w.Since(), "operator", "skips", id)
}

// Resend is a person asking for a sent event to be sent again.
func (o *outboxModel) Resend(r *outboxRow) {
	o.controls.Version++
	o.resends++
	o.shares.listed[r.id] = true
	o.again[r.id] = r.event.ID + "#" + strconv.Itoa(o.resends)
	i, _ := slices.BinarySearch(o.extra, r.id)
	o.extra = slices.Insert(o.extra, i, r.id)
	o.w.probes.hit("sent event listed again")
	o.w.hist.note(o.w.Since(), "operator", "resends", r.id)
}
