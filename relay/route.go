package relay

import (
	"cmp"
	"slices"

	"github.com/settlemq/settle"
)

// Route names the broker of the events that it matches. Of a list of routes the
// first that matches an event decides; one that none matches goes to the default
// broker under its own topic. To several brokers goes what a route with Also
// matches.
//
// A pattern is a text in which * stands for any characters, or none, and ? for
// one; an empty pattern matches everything.
type Route struct {
	// EventType, AggregateType and Topic are patterns; all of them must match.
	// The topic of an event that names none is settle.DefaultTopic.
	EventType     string `json:"event_type,omitempty"`
	AggregateType string `json:"aggregate_type,omitempty"`
	Topic         string `json:"topic,omitempty"`
	// Broker is one of Config.Brokers. Defaults to "", the default broker.
	Broker string `json:"broker,omitempty"`
	// As is the topic there. Defaults to the event's own.
	As string `json:"as,omitempty"`
	// Also has the routes behind this one asked too: an event that it matches goes
	// here, and where the next one leads that matches. Defaults to false.
	Also bool `json:"also,omitempty"`
}

// Matches reports whether the route is one for the event.
func (r Route) Matches(e *settle.Event) bool {
	return matches(r.EventType, e.Type) && matches(r.AggregateType, e.AggregateType) && matches(r.Topic, topicOf(e))
}

// Destinations returns where routes send an event, by the names of destinations
// and each once. It depends on nothing else.
func Destinations(routes []Route, e *settle.Event) []string {
	var names []string
	for i := range routes {
		if !routes[i].Matches(e) {
			continue
		}
		if name := DestinationName(routes[i].Broker, cmp.Or(routes[i].As, topicOf(e))); !slices.Contains(names, name) {
			names = append(names, name)
		}
		if !routes[i].Also {
			break
		}
	}
	if names == nil {
		names = []string{DestinationName("", topicOf(e))}
	}
	return names
}

func topicOf(e *settle.Event) string {
	if e == nil || e.Topic == "" {
		return settle.DefaultTopic
	}
	return e.Topic
}

// matches goes back to the last * whenever it can't go on.
func matches(pattern, text string) bool {
	if pattern == "" {
		return true
	}
	p, t, star, from := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p, t = p+1, t+1
		case star >= 0:
			from++
			p, t = star+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
