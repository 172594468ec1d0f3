package main

import (
	"context"
	"slices"
	"strings"
)

// target is a kind of broker: how its server is reached, and the ways that are
// measured on it.
type target struct {
	// name is how flags call it; a URL's scheme begins with one of its schemes.
	name    string
	schemes []string
	// env holds the URL of a server, service is what `scripts/services up` calls it.
	env, service string
	connect      func(ctx context.Context, at string) (broker, error)
	// keeps tells that events stay in the broker when they were read.
	keeps bool
	// window is how many events may wait for the broker's answer, for all ways.
	window int
	// events of a turn, of those that publish and of those that read.
	published, read int
	// drainShare divides the events that are drained into it.
	drainShare int
	// In the order of the tables; the first are what others are compared with.
	publishers, readers []way
	// hot are those of one key, where a broker makes them another matter.
	hot []way
	// carriers go from PostgreSQL to the broker.
	carriers []contender
}

// broker is a server with what belongs to the run on it.
type broker interface {
	// describe tells what it is and how durable.
	describe(ctx context.Context) (string, error)
	// create makes an empty topic that groups will read.
	create(ctx context.Context, topic string, groups ...string) error
	// remove deletes it with all that groups have of it.
	remove(ctx context.Context, topic string, groups ...string) error
	// held counts the events that a topic has for a group.
	held(ctx context.Context, topic, group string) (int, error)
	close() error
}

// way is one way to publish to a broker, or to read from it.
type way struct {
	// name is how a flag calls it, title how the table does.
	name, title string
	// run publishes t.events, and returns when the broker has acknowledged all;
	// or reads until ctx is done. It counts each at t.meter.
	run func(ctx context.Context, t task) error
	// share divides the count of events for those that would take minutes.
	share int
}

// task is what a way finds.
type task struct {
	URL   string `json:"-"` // it may hold a password
	Topic string `json:"topic"`
	Group string `json:"group"`
	// Events to carry, Warm of them before anything is measured. A topic that is
	// read may have more of them, Of in all.
	Events int `json:"events"`
	Of     int `json:"of"`
	Warm   int `json:"warm"`
	Keys   int `json:"keys"`
	Window int `json:"window"`
	meter  *meter
}

func targets() []target { return []target{toKafka(), toRabbitMQ()} }

func targetNames() (names []string) {
	for _, t := range targets() {
		names = append(names, t.name)
	}
	return names
}

// targetOf finds a kind of broker by its name, or by a URL of its server.
func targetOf(s string) (target, bool) {
	scheme, _, isURL := strings.Cut(s, "://")
	for _, t := range targets() {
		if s == t.name || isURL && slices.Contains(t.schemes, scheme) {
			return t, true
		}
	}
	return target{}, false
}

// way finds one by the word for what it does, and its name.
func (t target) way(act, name string) (way, bool) {
	for _, w := range t.ways(act) {
		if w.name == name {
			return w, true
		}
	}
	return way{}, false
}

// Words for what ways do.
const (
	actPublish = "publish"
	actHot     = "hot-key"
	actRead    = "read"
)

func (t target) ways(act string) []way {
	switch act {
	case actPublish:
		return t.publishers
	case actHot:
		return t.hot
	}
	return t.readers
}
