package rabbitmq

import (
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/broker/internal/deadletter"
)

// Reasons of deaths, as RabbitMQ names them.
const (
	reasonLimit   = "delivery_limit"
	reasonExpired = "expired"
	reasonFull    = "maxlen"
	reasonNo      = "rejected"
)

// history is what RabbitMQ writes of a message's deaths: an entry for each
// queue and reason, the last one first, each with the time, exchange and
// routing key of its first. Anybody could have written the headers.
type history struct {
	headers amqp.Table
	deaths  []bridge.Death
}

func newHistory(headers amqp.Table) history {
	h := history{headers: headers}
	entries, _ := headers["x-death"].([]any)
	for _, e := range entries {
		entry, is := e.(amqp.Table)
		if !is {
			continue
		}
		d := bridge.Death{Reason: word(entry["reason"]), Count: whole(entry["count"])}
		d.Place.Queue, d.Place.Exchange = word(entry["queue"]), word(entry["exchange"])
		if keys, is := entry["routing-keys"].([]any); is && len(keys) > 0 {
			d.Place.RoutingKey = word(keys[0])
		}
		if at, is := entry["time"].(time.Time); is {
			d.At = at.UTC()
		}
		h.deaths = append(h.deaths, d)
	}
	return h
}

func word(v any) string {
	s, _ := v.(string)
	return deadletter.Text(s)
}

func whole(v any) int {
	switch v := v.(type) {
	case int64:
		return int(v)
	case int32:
		return int(v)
	case int:
		return v
	}
	return 0
}

// places are the newest deaths.
func (h history) places() []bridge.Death { return h.deaths[:min(len(h.deaths), bridge.MaxHistory)] }

// born is the first death, if there was one: the message had come to that queue
// as its producer sent it.
func (h history) born() (bridge.Death, bool) {
	if len(h.deaths) == 0 {
		return bridge.Death{}, false
	}
	queue, reason := word(h.headers["x-first-death-queue"]), word(h.headers["x-first-death-reason"])
	if i := slices.IndexFunc(h.deaths, func(d bridge.Death) bool { return d.Place.Queue == queue && d.Reason == reason }); i >= 0 {
		return h.deaths[i], true
	}
	return h.deaths[len(h.deaths)-1], true
}

// origin is where the consumer had the message from, and before it went back to
// its group only. What Spring republishes has died nowhere, or came to its
// consumer by a ladder.
func (h history) origin() bridge.Place {
	if o, is := deadletter.ParseOrigin(word(h.headers[deadletter.HeaderOrigin])); is {
		d, _ := h.born()
		return bridge.Place{Exchange: o.Exchange, RoutingKey: o.RoutingKey, Queue: d.Place.Queue}
	}
	if d, is := h.born(); is {
		return d.Place
	}
	return bridge.Place{Exchange: word(h.headers[springExchange]), RoutingKey: word(h.headers[springRoutingKey])}
}

// republished says that the consumer itself has sent the letter.
func (h history) republished() bool { return h.headers[springTrace] != nil }

func (h history) class() settle.Class {
	if len(h.deaths) == 0 || h.republished() {
		return settle.ClassHandler
	}
	switch h.deaths[0].Reason {
	case reasonLimit:
		return settle.ClassCrashLoop
	case reasonExpired:
		return bridge.ClassExpired
	case reasonFull:
		return bridge.ClassOverflow
	}
	return settle.ClassHandler
}

// attempts counts what the consumer has rejected. How often it was delivered
// again before is not told.
func (h history) attempts() int {
	n := 0
	if h.republished() {
		n = 1
	}
	first, _ := h.born()
	for _, d := range h.deaths {
		if d.Reason == reasonNo && d.Place.Queue == first.Place.Queue {
			n += d.Count
		}
	}
	return n
}

// diedAt is the newest time that is told.
func (h history) diedAt() time.Time {
	var last time.Time
	for _, d := range h.deaths {
		if d.At.After(last) {
			last = d.At
		}
	}
	return last
}
