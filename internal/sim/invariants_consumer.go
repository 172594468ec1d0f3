package sim

import (
	"github.com/settlemq/settle"
)

// inbox checks the effects of a group after a transaction.
func (c *checker) inbox(x *inboxModel) {
	o := c.orderOf(x)
	for ; o.seen < len(x.effects); o.seen++ {
		e := x.effects[o.seen]
		if n := x.applied[e.event.ID]; n > 1 && !e.accept {
			c.w.fail("one effect per group", "event %s took effect %d times in %s", e.event.ID, n, x.group.Name)
		}
		c.effectOrder(o, e)
	}
	for id := range x.log {
		x.ever[id] = true
	}
}

func (c *checker) orderOf(x *inboxModel) *ordered {
	for _, o := range c.order {
		if o.x == x {
			return o
		}
	}
	o := &ordered{x: x, last: map[string]*settle.Event{}}
	c.order = append(c.order, o)
	return o
}

// effectOrder checks that effects of a key follow the broker's log, or the
// producer's count where the group follows that.
func (c *checker) effectOrder(o *ordered, e effect) {
	x, ev := o.x, e.event
	if x.group.Pass || x.free(ev.ID) {
		return
	}
	key := ev.Topic + "\x00" + ev.AggregateID
	before := o.last[key]
	o.last[key] = ev
	switch {
	case before == nil:
	case x.group.OrderedBySeq && ev.AggregateSeq <= before.AggregateSeq:
		c.w.fail("order of effects", "%s: %s (%d of %s) took effect after %s (%d)",
			x.group.Name, ev.ID, ev.AggregateSeq, ev.AggregateID, before.ID, before.AggregateSeq)
	case !x.group.OrderedBySeq && c.w.broker.first(ev) < c.w.broker.first(before):
		c.w.fail("order of effects", "%s: %s of %s took effect after %s, which comes later in the log",
			x.group.Name, ev.ID, ev.AggregateID, before.ID)
	}
}

// free reports whether nothing of the event's key waits for it: it is, or was,
// a dead letter that does not hold its key.
func (x *inboxModel) free(id string) bool { return x.passed[id] }

// first is the position of the first copy of e.
func (b *brokerModel) first(e *settle.Event) int64 {
	for _, r := range b.topic(e.Topic).partitions[b.partition(e.AggregateID)] {
		if r.Event != nil && r.Event.ID == e.ID {
			return r.Position
		}
	}
	return 0
}

// floor checks that all up to pos is durably dealt with.
func (c *checker) floor(x *inboxModel, topic string, number int, pos int64) {
	for i := range c.w.broker.topic(topic).partitions[number] {
		r := &c.w.broker.topic(topic).partitions[number][i]
		if r.Position > pos {
			return
		}
		if x.log[recordID(r)] != nil || x.ever[recordID(r)] || x.ignores(r) {
			continue
		}
		c.w.fail("acknowledged means durable", "%s acknowledged %s/%d up to %d, but has no row for %s at %d",
			x.group.Name, topic, number, pos, recordID(r), r.Position)
	}
}

func (c *checker) acked(x *inboxModel, f *feed) { c.floor(x, f.part.Topic, f.part.Number, f.pos) }

func (x *inboxModel) ignores(r *settle.Record) bool {
	return r.Event != nil && x.ignoresType(r.Event.Type)
}

func (x *inboxModel) ignoresType(name string) bool {
	_, handled := x.rules[name]
	return !handled
}

// handled is called before a handler runs.
func (c *checker) handled(x *inboxModel, e *settle.Event, attempt int) {
	c.attempts(x.group.Name, e.ID, attempt)
	if attempt > 1 {
		c.w.probes.hit("attempt after the first")
	}
}

func (c *checker) handlingOf(x *inboxModel, l *letter) *handling {
	if l.record.Event == nil {
		return nil
	}
	return c.w.fates[l.eventID].byGroup[x.group.Name]
}

func (h *handling) is(k handlingKind) bool { return h != nil && h.kind == k }

// deadLetter is called for each dead letter of a group.
func (c *checker) deadLetter(x *inboxModel, l *letter, attempt int) {
	ok := true
	switch l.class {
	case settle.ClassHandler:
		ok = attempt >= x.group.Retries && (c.handlingOf(x, l).is(fails) || c.w.story.blames(x, l))
	case settle.ClassPanic:
		ok = attempt >= x.group.Retries && c.handlingOf(x, l).is(panics)
	case settle.ClassPermanent:
		ok = c.handlingOf(x, l).is(failsForGood) || c.w.story.blames(x, l)
	case settle.ClassDecode:
		ok = l.record.Event == nil
	case settle.ClassCrashLoop:
		ok = attempt >= x.group.Retries
	case settle.ClassBeyondWindow:
		ok = x.group.DedupWindow > 0
	case settle.ClassOutOfSequence, settle.ClassSequenceGap:
		ok = x.group.OrderedBySeq
	case settle.ClassVersion:
		ok = false
	}
	if !ok {
		c.w.fail("a dead letter has a cause", "%s: %s died as %s at attempt %d", x.group.Name, l.eventID, l.class, attempt)
	}
	if x.retryByID(l.retryID) == nil {
		x.passed[l.eventID] = true
	}
}
