package sim

import (
	"slices"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

// checker holds what the run has promised so far. Its methods are called at
// each change of a model and end the run when a promise is broken.
type checker struct {
	w      *World
	order  []*ordered    // effects, by group
	looked time.Duration // when to look again whether all is settled
}

// outboxChecker holds what one outbox has promised so far.
type outboxChecker struct {
	w       *World
	o       *outboxModel
	highest map[string]*outboxRow // last first copy, by destination and key
}

// ordered is how far the effects of one group have come, by topic and key.
type ordered struct {
	x    *inboxModel
	seen int // effects checked so far
	last map[string]*settle.Event
}

func newChecker(w *World) *checker { return &checker{w: w} }

// appended is called for each record that the broker's log takes.
func (c *outboxChecker) appended(e *settle.Event) {
	r := c.o.byEvent[e.ID]
	if r.state != rowVisible && r.state != rowDeleted {
		c.w.fail("nothing rolled back is sent", "event %s of row %d was never committed, or is gone", e.ID, r.id)
	}
	if !c.w.leads(r.event, e.Topic) {
		c.w.fail("an event goes where a route leads", "row %d (%s of topic %s) is at %s", r.id, e.ID, r.event.Topic, e.Topic)
	}
	r.sent++
	if r.sentTo == nil {
		r.sentTo = map[string]int{}
	}
	r.sentTo[e.Topic]++
	if r.sent > 1 && (!c.w.Fanned || r.sentTo[e.Topic] > 1) {
		c.w.probes.hit("event sent again")
		return
	}
	if !e.NotBefore.IsZero() && !c.w.ClockJumps && !c.w.Suspends && c.w.Now().Before(e.NotBefore.Add(-c.w.DelayAhead)) {
		c.w.fail("delayed events wait", "event %s was sent %v before its time", e.ID, e.NotBefore.Sub(c.w.Now()))
	}
	if c.unordered(r) {
		return
	}
	key := e.Topic + "\x00" + e.AggregateID
	if before := c.highest[key]; before != nil && before.id > r.id && !c.unordered(before) {
		c.w.fail("order per key in the broker's log", "row %d (%s) of %s came after row %d", r.id, e.ID, e.AggregateID, before.id)
	}
	if before := c.highest[key]; before == nil || before.id < r.id {
		c.highest[key] = r
	}
}

// sends is called for each event that a relay hands to the broker.
func (c *outboxChecker) sends(l *laneModel, e *settle.Event) {
	if !l.Owns(e.AggregateID) {
		c.w.fail("a lane sends only its own keys", "lane %d of generation %d sends %s of %s, which is another's", l.Number, l.Generation, e.ID, e.AggregateID)
	}
}

// unordered rows are those whose place in the order nobody promised.
func (c *outboxChecker) unordered(r *outboxRow) bool {
	if c.w.goesOnceMore() || c.w.Fanned && c.w.RouteChanges > 0 {
		return true // what is read anew may go to another broker besides
	}
	return r.late || r.passed || !r.event.NotBefore.IsZero()
}

// acknowledged is called for each row that a relay records as sent.
func (c *outboxChecker) acknowledged(s relay.Sent) {
	if r := c.o.row(s.ID); r == nil || r.sentTo[s.Destination] == 0 {
		c.w.fail("sent means that the broker has it", "row %d is recorded as sent to %s, which has no such record", s.ID, s.Destination)
	}
}

// checkpoint is called for each checkpoint written.
func (c *outboxChecker) checkpoint(l *laneModel, s storedCheckpoint) {
	if s.epoch < l.epoch {
		c.w.fail("a former leader writes nothing", "epoch %d of lane %d wrote checkpoint %d after epoch %d had", s.epoch, l.Number, s.Number, l.epoch)
	}
	if l.ended {
		c.w.fail("a lane that has ended writes nothing", "lane %d wrote checkpoint %d", l.Number, s.Number)
	}
	if n := len(l.newest().Readers); s.epoch == l.epoch && n > len(s.Readers) {
		c.w.probes.hit("destination joined again")
	}
	l.epoch = s.epoch
	for _, r := range s.Readers {
		if !slices.IsSorted(r.Open) {
			c.w.fail("checkpoints are well-formed", "open ids are not sorted: %v", r.Open)
		}
		if len(r.Open) > 0 && r.Open[len(r.Open)-1] > r.Cursor {
			c.w.fail("checkpoints are well-formed", "id %d is open above the cursor %d", r.Open[len(r.Open)-1], r.Cursor)
		}
	}
	for _, r := range s.Readers {
		for _, id := range r.Open {
			if row := c.o.row(id); row != nil && row.state == rowOpen {
				c.w.probes.hit("hole in a checkpoint")
			}
		}
	}
}

// cold is called for each hole recorded as cold.
func (c *outboxChecker) cold(id int64) {
	r := c.o.row(id)
	if r == nil || r.late {
		return
	}
	if r.state != rowOpen && r.state != rowVisible && r.state != rowGiven {
		return
	}
	switch {
	case c.w.OwnersKnown:
		c.w.fail("a hole with an owner is not cold", "id %d was recorded as cold while its transaction was open or had committed", id)
	case c.w.InnoDB && !r.probed:
		c.w.fail("a hole whose record is locked is not cold", "id %d was recorded as cold, and no probe has found its record without a lock", id)
	}
	r.late = true // grace alone counts here, and order is not promised
	c.w.probes.hit("grace ended before a transaction")
}

// places checks that every committed event is somewhere, and in one place.
func (c *outboxChecker) places() {
	o := c.o
	if c.w.halts >= 0 {
		return
	}
	for _, r := range o.rows {
		if r == nil || r.state != rowVisible {
			continue
		}
		p := o.placesOf(r)
		if p.read && r.sent == 0 && !r.done && !p.parked && !p.delayed && !p.extra && !p.gap && !p.dead {
			c.w.fail("nothing committed is lost", "row %d (%s of %s for %s) was passed by the cursor and is in no table, and was not sent",
				r.id, r.event.ID, r.event.AggregateID, r.event.Topic)
		}
		n := 0
		for _, in := range []bool{p.parked, p.delayed, p.extra, p.gap} {
			if in {
				n++
			}
		}
		if c.w.Fanned {
			c.shared(r, p)
			continue
		}
		if r.late {
			continue // a slow topic's reader may come to a late row by itself too
		}
		if n > 1 || n == 1 && !p.read && !(c.w.Routed && p.passed) && !c.w.goesOnceMore() {
			c.w.fail("one place", "row %d (%s) is in %d side tables, passed by the cursor: %v %+v", r.id, r.event.ID, n, p.read, p)
		}
	}
}

// retained is called for each row that retention deletes.
func (c *outboxChecker) retained(r *outboxRow) {
	if r.sent == 0 && !r.done || c.w.Fanned && len(c.o.missing(r)) > 0 {
		c.w.fail("nothing unsent is deleted", "retention deleted row %d (%s), which %v lack", r.id, r.event.ID, c.o.missing(r))
	}
}

// death is called for each dead letter of the relay.
func (c *outboxChecker) death(d relay.Death) {
	r, f := c.o.row(d.ID), (*fate)(nil)
	if r != nil && r.event != nil {
		f = c.w.fates[r.event.ID]
	}
	ok := false
	switch d.Class {
	case settle.ClassPublish:
		ok = d.Attempts >= c.w.RelayRetries
	case settle.ClassInvalid:
		ok = f.defective
	case settle.ClassCrashLoop:
		// Leaders may die of something else each time it is tried alone, but what
		// it was tried with is no cause.
		p := c.o.parkedRow(d.ID, d.Destination)
		ok = d.Attempts >= crashAttempts && p != nil && len(p.alone) >= crashAttempts
	case settle.ClassRowDeleted:
		// Deleted by hand, or lost with the database after it was read.
		ok = r.state == rowDeleted || r.state == rowRolled
	}
	if !ok {
		c.w.fail("a dead letter has a cause", "row %d died as %s after %d attempts: %s", d.ID, d.Class, d.Attempts, d.Cause)
	}
	c.w.probes.hit("relay dead letter " + string(d.Class))
}

// published is called for each batch that a relay hands over: a suspect that is
// in it goes with as many as are written down.
func (c *outboxChecker) published(lane int, p relay.Publish) {
	for i := range p.Messages {
		m := &p.Messages[i]
		row := c.o.parkedRow(c.o.byEvent[m.Event.ID].id, p.Destination)
		if row == nil || !row.Suspect || row.by.lane != lane || row.by.epoch > m.Epoch { // a former leader does not know
			continue
		}
		if row.by.epoch < m.Epoch || row.together != len(p.Messages) {
			c.w.fail("a try is written down before it is made", "row %d (%s), which may kill, is tried among %d by epoch %d; written down are %d by epoch %d",
				row.ID, m.Event.ID, len(p.Messages), m.Epoch, row.together, row.by.epoch)
		}
	}
}

// attempts checks that attempts are bounded.
func (c *checker) attempts(who, eventID string, n int) {
	limit := c.w.RelayRetries
	for i := range c.w.Groups {
		if c.w.Groups[i].Name == who {
			limit = c.w.Groups[i].Retries
		}
	}
	if who == "relay" {
		limit = max(limit, crashAttempts)
	}
	if n > limit {
		c.w.fail("attempts are bounded", "%s: event %s is at attempt %d of %d", who, eventID, n, limit)
	}
}

// relayMemory checks that a machine holds no more rows than its bounds allow:
// for each topic two batches that wait, a page read on top of them and one in
// flight, and a page of each side table.
func (c *checker) relayMemory(r *relayMember) {
	topics := c.w.Topics
	if c.w.Fanned {
		topics *= 2 // at each broker
	}
	limit := (4*topics + 3) * c.w.BatchRows
	if s := r.machine.Stats(r.now()); s.Pending > limit {
		c.w.fail("memory is bounded", "%s holds %d rows, more than %d", r.name, s.Pending, limit)
	}
}
