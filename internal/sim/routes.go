package sim

import (
	"slices"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

// otherBroker is the name of the second broker. Its topics are kept beside those
// of the first, each under the name of the destination.
const otherBroker = "other"

// reroute changes the routes for relays that begin from now on.
func (w *World) reroute() {
	other := relay.Route{Broker: otherBroker}
	switch w.IntN(6) {
	case 0:
		other.EventType = typeSometime
	case 1:
		other.EventType = "*d"
		other.Topic = topicName(0)
	case 2:
		other.Topic = topicName(w.Topics - 1)
	case 3:
		other.AggregateType, other.As = "ord?r", topicName(0)
	case 4: // one broker, and another topic
		other = relay.Route{EventType: typeOrdinary, As: topicName(0)}
	default:
		w.routed(nil)
		return
	}
	if w.Fanned {
		here := other
		here.Broker, here.Also = "", true
		if w.chance(0.5) { // a few more
			here.EventType, here.Topic, here.AggregateType, here.As = "", "", "", ""
			other.EventType, other.Topic, other.AggregateType = "", "", ""
		}
		other.Broker = otherBroker
		w.routed([]relay.Route{here, other})
		return
	}
	w.routed([]relay.Route{other})
}

func (w *World) routed(routes []relay.Route) {
	w.routes = routes
	w.everRouted = append(w.everRouted, routes)
	w.hist.note(w.Since(), "operator", "routes", routes)
	if len(w.everRouted) > 1 {
		w.probes.hit("routes changed")
	}
}

// leads reports whether some list of routes leads an event of this key, topic and
// type to a destination.
func (w *World) leads(e *settle.Event, destination string) bool {
	if !w.Routed {
		return destination == e.Topic
	}
	return slices.ContainsFunc(w.everRouted, func(routes []relay.Route) bool {
		return slices.Contains(relay.Destinations(routes, e), destination)
	})
}

// goesOnceMore reports whether lanes may begin below what those before them have
// sent, because they had not all come to the same change of the routes.
func (w *World) goesOnceMore() bool { return w.RouteChanges > 0 && w.LaneChanges > 0 }

// stopOther stops the second broker.
func (w *World) stopOther() {
	w.broker.otherDown = true
	w.hist.note(w.Since(), "second broker", "stops")
	w.After(w.between(50*w.CallTime, faultTime/2), func() {
		w.broker.otherDown = false
		w.hist.note(w.Since(), "second broker", "is back")
	})
}
