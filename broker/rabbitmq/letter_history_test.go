package rabbitmq

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
)

func read(headers amqp.Table) bridge.Letter {
	s := &letterSource{g: bridge.Group{Name: "g", Dead: []string{"q.dead"}, Retry: "q"}}
	return s.letter(arrival{"q.dead", amqp.Delivery{Headers: headers, Body: []byte("x"), Exchange: "e", RoutingKey: "k"}})
}

func death(queue, reason, exchange, key string, count int64, at int64) amqp.Table {
	return amqp.Table{"queue": queue, "reason": reason, "exchange": exchange, "routing-keys": []any{key, "cc"}, "count": count, "time": time.Unix(at, 0)}
}

func TestTheHistoryOfDeathsIsReadAndWhatIsBrokenIsNotInvented(t *testing.T) {
	l := read(amqp.Table{
		"x-first-death-queue": "q", "x-first-death-reason": "rejected",
		"x-death": []any{death("q.retry.1", "expired", "q.retry", "paid", 1, 20), death("q", "rejected", "orders", "paid", 3, 10), death("other", "rejected", "", "", 7, 5)},
	})
	if l.From != (bridge.Place{Exchange: "orders", RoutingKey: "paid", Queue: "q"}) || l.Attempts != 3 || !l.DiedAt.Equal(time.Unix(20, 0)) || len(l.History) != 3 || l.History[0].Reason != "expired" {
		t.Errorf("the letter is %+v", l)
	}
	for name, headers := range map[string]amqp.Table{
		"no table":       {"x-death": "q"},
		"no tables":      {"x-death": []any{"q", int64(1), nil}},
		"other types":    {"x-death": []any{amqp.Table{"queue": int64(1), "reason": nil, "count": "7", "time": "now", "routing-keys": "k", "exchange": []any{}}}},
		"other keys":     {"x-death": []any{amqp.Table{"routing-keys": []any{int64(1)}, "count": int32(1)}}},
		"nothing at all": nil,
	} {
		l := read(headers)
		if l.From != (bridge.Place{}) || l.Attempts != 0 || l.DiedAt.IsZero() || len(l.To) != 1 || l.Class != settle.ClassDecode {
			t.Errorf("%s: the letter is %+v", name, l)
		}
	}
	many := make([]any, 100)
	for i := range many {
		many[i] = death("q", strings.Repeat("r", i), "", "q", 1, 1)
	}
	if l := read(amqp.Table{"x-death": many}); len(l.History) != bridge.MaxHistory || l.History[1].Reason != "r" {
		t.Errorf("%d deaths are told, the second is %+v", len(l.History), l.History[1])
	}
}

func TestTheClassIsThatOfTheLastDeath(t *testing.T) {
	body := settle.AppendEnvelope(nil, &settle.Event{ID: "e", Type: "t", AggregateID: "a", Payload: []byte("{}")})
	s := &letterSource{g: bridge.Group{Name: "g"}}
	for reason, want := range map[string]settle.Class{
		"rejected": settle.ClassHandler, "expired": bridge.ClassExpired, "maxlen": bridge.ClassOverflow, "delivery_limit": settle.ClassCrashLoop, "something new": settle.ClassHandler,
	} {
		l := s.letter(arrival{"q.dead", amqp.Delivery{Body: body, Headers: amqp.Table{"x-death": []any{death("q", reason, "", "q", 1, 1), death("p", "maxlen", "", "q", 1, 1)}}}})
		if l.Class != want {
			t.Errorf("%s is %q, want %q", reason, l.Class, want)
		}
	}
}

func TestAnIdentityIsTheSameOnEachDeliveryAndAnotherForAnyOtherMessage(t *testing.T) {
	name := func(change func(*arrival)) string {
		a := arrival{"q.dead", amqp.Delivery{Body: []byte("x"), MessageId: "m", Headers: amqp.Table{"h": int64(1), "x-death": []any{death("q", "rejected", "", "q", 1, 1)}}}}
		change(&a)
		return digest(a)
	}
	first := name(func(*arrival) {})
	for what, change := range map[string]func(*arrival){
		"redelivered": func(a *arrival) { a.Redelivered, a.DeliveryTag = true, 9 },
		"counted":     func(a *arrival) { a.Headers["x-delivery-count"], a.Headers["x-acquired-count"] = int64(2), int64(3) },
	} {
		if name(change) != first {
			t.Errorf("%s it has another identity", what)
		}
	}
	for what, change := range map[string]func(*arrival){
		"body":   func(a *arrival) { a.Body = []byte("y") },
		"id":     func(a *arrival) { a.MessageId = "n" },
		"queue":  func(a *arrival) { a.queue = "p" },
		"type":   func(a *arrival) { a.Headers["h"] = int32(1) },
		"death":  func(a *arrival) { a.Headers["x-death"] = []any{death("q", "rejected", "", "q", 2, 1)} },
		"time":   func(a *arrival) { a.Headers["x-death"] = []any{death("q", "rejected", "", "q", 1, 2)} },
		"return": func(a *arrival) { a.Headers[bridge.HeaderReturn] = "r1" },
		"shift":  func(a *arrival) { a.MessageId, a.CorrelationId = "", "m" },
	} {
		if got := name(change); got == first || len(got) > bridge.MaxIdentity-8 {
			t.Errorf("with another %s its identity is %q", what, got)
		}
	}
}

func TestTwinsAreCountedWhileTheyAreRemembered(t *testing.T) {
	var seen twins
	for i, want := range []string{"a", "a.2", "b", "a.3", "b.2"} {
		if got := seen.name(want[:1]); got != want {
			t.Errorf("the name %d is %q, want %q", i, got, want)
		}
	}
	for i := range 3 * maxTwins {
		seen.name(time.Duration(i).String())
	}
	if len(seen.now)+len(seen.before) > 2*maxTwins {
		t.Errorf("%d names are remembered", len(seen.now)+len(seen.before))
	}
}

func TestWhatALetterTellsIsText(t *testing.T) {
	l := read(amqp.Table{"a\xff": "b\x00\xff", springMessage: "m\x00", springTrace: "java.lang.E: \xff\n", "bytes": []byte{0, 255}, "t": amqp.Table{"x": []byte{1}}})
	if _, err := json.Marshal(l.Record.Headers); err != nil || l.Record.Headers["a\uFFFD"] != "b\uFFFD\uFFFD" || l.Message != "m\uFFFD" || l.Exception != "java.lang.E" {
		t.Errorf("the letter is %+v, %v", l, err)
	}
	if l.Wrapping != nil || l.To != nil { // a name that is no text is not kept
		t.Errorf("it goes back to %v", l.To)
	}
}
