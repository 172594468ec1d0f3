package relay

import (
	"slices"

	"github.com/settlemq/settle"
)

// Routing is a list of routes and the ids for which it decides: those above
// After, up to where the next list begins. What a leader reads that was appended
// before the routes were changed goes where they led then, so that an event has
// one destination whoever reads it and how often.
type Routing struct {
	After  int64   `json:"after"`
	Routes []Route `json:"routes"`
}

// routing decides where events go. The zero value is that of a relay with one
// broker and no routes: destinations are topics.
type routing struct {
	// lists are in order of After; the last one is Config.Routes. Empty where
	// there were never any.
	lists []Routing
	// fans is whether some list sends an event to more than one destination.
	fans bool
	// known remembers what the last list said.
	known map[routeKey][]*destination
}

type routeKey struct{ eventType, aggregateType, topic string }

// maxKnown bounds what is remembered of routes.
const maxKnown = 10_000

// begin takes the routes under which a life goes on from what earlier leaders
// have recorded; ids above the cursor were read by none of them.
func (r *routing) begin(recorded []Routing, routes []Route, cursor int64) {
	r.lists, r.known = slices.Clone(recorded), nil
	defer r.look()
	for n := len(r.lists); n > 1 && r.lists[n-1].After >= cursor; n-- {
		r.lists = r.lists[:n-1] // it has decided for nothing
	}
	var last []Route
	if n := len(r.lists); n > 0 {
		last = r.lists[n-1].Routes
	}
	if slices.Equal(last, routes) {
		return
	}
	if len(r.lists) == 0 {
		r.lists = append(r.lists, Routing{})
	}
	r.lists = append(r.lists, Routing{After: cursor, Routes: slices.Clone(routes)})
}

func (r *routing) look() {
	r.fans = slices.ContainsFunc(r.lists, func(l Routing) bool {
		return slices.ContainsFunc(l.Routes, func(route Route) bool { return route.Also })
	})
}

// used reports whether there is, or ever was, anything but topics of one broker.
func (r *routing) used() bool { return len(r.lists) > 0 }

// prune forgets routes that decide for no id any more: all up to low are done.
func (r *routing) prune(low int64) {
	for len(r.lists) > 1 && r.lists[1].After <= low {
		r.lists = r.lists[1:]
		r.look()
	}
}

// of returns the routes that decide for an id of the log.
func (r *routing) of(id int64) []Route {
	i := len(r.lists) - 1
	for i > 0 && id <= r.lists[i].After {
		i--
	}
	return r.lists[i].Routes
}

// destinationsOf is where a row goes. A row of a side table goes where it was
// recorded for. What names no destination there (backlog, late, resend) goes by
// the present routes. The returned slice is the machine's until the next call.
func (m *Machine) destinationsOf(row *Row, from Origin) []*destination {
	switch r := &m.routing; {
	case len(row.Owed) > 0:
		m.targets = m.targets[:0]
		for _, name := range row.Owed {
			m.targets = append(m.targets, m.destination(name))
		}
	case row.Destination != "":
		m.targets = append(m.targets[:0], m.destination(row.Destination))
	case !r.used():
		m.targets = append(m.targets[:0], m.destination(topicOf(row.Event)))
	default:
		return m.routedTo(row, from)
	}
	return m.targets
}

// routedTo is where the routes lead that decide for a row.
func (m *Machine) routedTo(row *Row, from Origin) []*destination {
	if r := &m.routing; from == FromLog && row.ID <= r.lists[len(r.lists)-1].After {
		return m.routed(r.of(row.ID), row.Event)
	}
	return m.routedNow(row.Event)
}

// routedNow asks the last list, and remembers what it said.
func (m *Machine) routedNow(e *settle.Event) []*destination {
	key := routeKey{topic: topicOf(e)}
	if e != nil {
		key.eventType, key.aggregateType = e.Type, e.AggregateType
	}
	r := &m.routing
	if d := r.known[key]; d != nil {
		return d
	}
	d := m.routed(r.lists[len(r.lists)-1].Routes, e)
	if r.known == nil || len(r.known) >= maxKnown {
		r.known = make(map[routeKey][]*destination)
	}
	r.known[key] = d
	return d
}

func (m *Machine) routed(routes []Route, e *settle.Event) []*destination {
	if e == nil {
		e = &settle.Event{}
	}
	names := Destinations(routes, e)
	to := make([]*destination, len(names))
	for i, name := range names {
		to[i] = m.destination(name)
		to[i].serves(topicOf(e))
		to[i].shares = to[i].shares || len(names) > 1
	}
	return to
}

// serves notes a topic of the outbox from which events come here.
func (d *destination) serves(topic string) {
	if i, known := slices.BinarySearch(d.topics, topic); !known {
		d.topics = slices.Insert(d.topics, i, topic)
	}
}
