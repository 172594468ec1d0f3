package sim

import (
	"slices"

	"github.com/settlemq/settle/relay"
)

// shares is what an outbox knows of rows that go to several destinations.
type shares struct {
	// delayed and extra are to whom rows of the two tables are owed, where that is
	// recorded.
	delayed, extra map[int64][]string
	// listed are rows that the present routes decide about, not those under which
	// the log came to them: late ones, and those that a person has sent again.
	listed map[int64]bool
}

func newShares() shares {
	return shares{delayed: map[int64][]string{}, extra: map[int64][]string{}, listed: map[int64]bool{}}
}

func (s *shares) held(held []string, destination string, owed []string) bool {
	if owed == nil {
		return slices.Contains(held, destination)
	}
	return !slices.ContainsFunc(owed, func(name string) bool { return !slices.Contains(held, name) })
}

// leaveShare takes a row out of its side table for one of several destinations.
// It returns false for one that leaves it wholly.
func (o *outboxModel) leaveShare(id int64, destination string, from relay.Origin, share *relay.Share) bool {
	if share == nil || share.Owed == nil || from != relay.FromDelayed && from != relay.FromExtra {
		return false
	}
	owed, what := o.shares.extra, "late"
	if from == relay.FromDelayed {
		owed, what = o.shares.delayed, "delayed"
	}
	left, recorded := owed[id]
	if !recorded {
		left = share.Owed
	}
	left = slices.DeleteFunc(slices.Clone(left), func(name string) bool { return name == destination })
	if owed[id] = left; len(left) == 0 {
		delete(owed, id)
		return false
	}
	o.w.probes.hit(what + " row left for another destination")
	return true
}

// joinDelayed has a row delayed for one destination of several. It returns false
// where the row is yet to be added.
func (o *outboxModel) joinDelayed(d relay.Delay) bool {
	if d.Share == nil {
		return false
	}
	owed := o.shares.delayed[d.ID]
	if slices.Contains(owed, d.Destination) && !o.row(d.ID).late && !o.shares.listed[d.ID] {
		o.w.fail("one place", "row %d is delayed twice for %s", d.ID, d.Destination)
	}
	there := slices.ContainsFunc(o.delayed, func(x relay.Delay) bool { return x.ID == d.ID })
	if !slices.Contains(owed, d.Destination) {
		o.shares.delayed[d.ID] = append(slices.Clone(owed), d.Destination)
	}
	return there
}

// giveUp notes that a person wants a row at a destination no more.
func (r *outboxRow) giveUp(destination string) {
	if r.over == nil {
		r.over = map[string]bool{}
	}
	r.over[destination] = true
}

// decide notes where rows go that a lane's cursor has come to: the checkpoint says
// which routes decide.
func (o *outboxModel) decide(lane *laneModel, readers []relay.Reader) {
	if !o.w.Fanned {
		return
	}
	for id := int64(1); id <= readers[0].Cursor; id++ {
		r := o.row(id)
		if r == nil || r.event == nil || r.goes != nil || !lane.Owns(r.event.AggregateID) {
			continue
		}
		var routes []relay.Route
		for _, l := range readers[0].Routing {
			if l.After < id {
				routes = l.Routes
			}
		}
		if r.goes = relay.Destinations(routes, o.asRow(r).Event); len(r.goes) > 1 {
			o.w.probes.hit("row that goes to several destinations")
		}
	}
}

// missing are the destinations that lack a row which they should have.
func (o *outboxModel) missing(r *outboxRow) []string {
	lacks := func(names []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return r.sentTo[name] > 0 || r.over[name] })
	}
	if !o.shares.listed[r.id] && !r.late && !o.w.goesOnceMore() {
		return lacks(r.goes)
	}
	var least []string
	for i, routes := range o.w.everRouted {
		if lack := lacks(relay.Destinations(routes, o.asRow(r).Event)); i == 0 || len(lack) < len(least) {
			least = lack
		}
	}
	return least
}

// shared checks that at each of its destinations a row is in one place.
func (c *outboxChecker) shared(r *outboxRow, p places) {
	o := c.o
	if r.late || o.shares.listed[r.id] || c.w.goesOnceMore() || p.gap {
		return
	}
	for _, name := range r.goes {
		n := 0
		if o.parkedRow(r.id, name) != nil {
			n++
		}
		if owed := o.shares.delayed[r.id]; p.delayed && (owed == nil || slices.Contains(owed, name)) {
			n++
		}
		dead := slices.ContainsFunc(o.dead, func(d *deadRow) bool { return d.ID == r.id && d.Destination == name && d.open })
		switch read := o.ownerOf(r.event.AggregateID).reached(r.id, name); {
		case n > 1:
			c.w.fail("one place", "row %d (%s) is in %d side tables for %s", r.id, r.event.ID, n, name)
		case read && n == 0 && !dead && r.sentTo[name] == 0 && !r.over[name]:
			c.w.fail("nothing committed is lost", "row %d (%s) was passed at %s, is in no table for it, and was not sent there", r.id, r.event.ID, name)
		}
	}
}

// reached reports whether the lane's reader that serves a destination has passed
// an id.
func (l *laneModel) reached(id int64, destination string) bool {
	c := l.newest()
	if len(c.Readers) == 0 {
		return false
	}
	of, others := c.Readers[0], c.Readers[1:]
	if len(of.Routing) > 0 {
		others = of.Routed
	}
	for _, r := range others {
		if r.Destination == destination {
			of = r
		}
	}
	return id <= of.Cursor && !slices.Contains(of.Open, id)
}
