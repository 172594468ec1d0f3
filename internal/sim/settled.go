package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// settledBy reports whether all is settled; it looks at the clock first, so
// that it costs little.
func (c *checker) settledBy() bool {
	if c.w.Since() < c.looked {
		return false
	}
	c.looked = c.w.Since() + 100*time.Millisecond
	open := false
	c.eachUnsettled(func(string, ...any) { open = true })
	return !open
}

// unsettled names what is not settled yet, or is empty.
func (c *checker) unsettled() string {
	var open []string
	say := func(format string, args ...any) { open = append(open, fmt.Sprintf(format, args...)) }
	c.eachUnsettled(say)
	if len(open) > 12 {
		open = append(open[:12], fmt.Sprintf("and %d more", len(open)-12))
	}
	return strings.Join(open, "; ")
}

func (c *checker) eachUnsettled(say func(string, ...any)) {
	for _, o := range c.w.outboxes {
		c.relayUnsettled(o, say)
	}
	for _, x := range c.w.inboxes {
		c.groupUnsettled(x, say)
	}
	c.w.story.unsettled(say)
}

func (c *checker) relayUnsettled(o *outboxModel, say func(string, ...any)) {
	if len(o.open) > 0 {
		say("%d transactions are open", len(o.open))
	}
	for _, l := range o.locks {
		if l.held { // also by one that has ended with the server, and is yet to hear of it
			say("a key is locked by a producer")
		}
	}
	for _, r := range o.rows {
		if r == nil || r.state != rowVisible {
			continue
		}
		switch p := o.placesOf(r); {
		case !p.read:
			say("row %d (%s) is above the cursor of %s, or open", r.id, r.event.ID, r.event.Topic)
		case p.parked || p.delayed || p.extra || p.gap || p.dead:
			say("row %d (%s) is in a side table: %+v", r.id, r.event.ID, p)
		case r.sent == 0 && !r.done:
			say("row %d (%s) was not sent", r.id, r.event.ID)
		case c.w.Fanned && len(o.missing(r)) > 0:
			say("row %d (%s) was not sent to %v", r.id, r.event.ID, o.missing(r))
		}
	}
	if n := len(o.parked) + len(o.delayed) + len(o.extra); n > 0 {
		say("%d rows are in side tables", n)
	}
	for _, m := range c.w.relays {
		if m.outbox != o || m.machine == nil {
			continue
		}
		if s := m.machine.Stats(m.now()); s.Leading && s.Behind > 0 {
			say("%d destinations of %s still read for themselves", s.Behind, m.name)
		}
	}
	if last := o.divisions[len(o.divisions)-1]; !last.begun {
		say("generation %d of lanes has not begun", len(o.divisions))
	}
	for _, l := range o.active().lanes {
		o.holesOf(l, say)
	}
}

func (o *outboxModel) holesOf(l *laneModel, say func(string, ...any)) {
	for _, r := range l.newest().Readers {
		for _, id := range r.Open {
			if row := o.row(id); row != nil && row.state == rowReserved {
				continue
			}
			say("id %d is still a hole of lane %d", id, l.Number)
		}
	}
}

func (c *checker) groupUnsettled(x *inboxModel, say func(string, ...any)) {
	for _, r := range x.retry {
		say("%s: %s waits in the retry store (dead %v, class %s, next %v)", x.group.Name, r.eventID, r.dead, r.item.Class, r.nextAt.Sub(epoch))
	}
	for _, l := range x.letters {
		if l.open {
			say("%s: dead letter %s is open", x.group.Name, l.eventID)
		}
	}
	for _, t := range c.w.broker.topics {
		for n, log := range t.partitions {
			for i := range log {
				r := &log[i]
				if row := x.log[recordID(r)]; (row == nil || !row.status.final()) && !x.ever[recordID(r)] && !x.ignores(r) {
					say("%s: record %s at %s/%d/%d is not dealt with", x.group.Name, recordID(r), t.name, n, r.Position)
				}
			}
			last, _ := t.last(n)
			if pos := c.position(x, t.name, n); pos < last {
				say("%s: %s/%d is read up to %d of %d", x.group.Name, t.name, n, pos, last)
			}
		}
	}
}

// position is how far a group has acknowledged a partition.
func (c *checker) position(x *inboxModel, topic string, number int) int64 {
	if x.group.Owned {
		return x.part(topic, number).floor.Position
	}
	return c.w.offset(x, topic, number).pos
}

// end checks what must hold when all is settled.
func (c *checker) end() {
	for _, id := range c.w.eventIDs {
		r := c.w.fates[id].from.byEvent[id]
		if r.sent == 0 {
			continue
		}
		for _, x := range c.w.inboxes {
			c.endOf(x, r)
		}
	}
}

// endOf checks that an event that was sent has taken effect in a group, or
// that its absence is explained.
func (c *checker) endOf(x *inboxModel, r *outboxRow) {
	id := r.event.ID
	if x.applied[id] > 0 || x.ignoresType(r.event.Type) {
		return
	}
	if row := x.log[id]; row != nil && (row.status == logDiscarded || row.status == logDuplicate) {
		return
	}
	if x.log[id] == nil && x.ever[id] {
		return // it was discarded or a duplicate, and forgotten
	}
	explained := slices.ContainsFunc(x.letters, func(l *letter) bool { return l.eventID == id })
	c.w.fail("every event takes effect", "%s: %s has no effect (a dead letter explains it: %v)", x.group.Name, id, explained)
}
