package relay

import (
	"fmt"
	"slices"
	"testing"

	"github.com/settlemq/settle"
)

func TestTheFirstRouteThatMatchesDecides(t *testing.T) {
	routes := []Route{
		{EventType: "order.*", Topic: "audit", Broker: "archive", As: "all"},
		{EventType: "payment.captured", Broker: "bank"},
		{AggregateType: "P?yment", Broker: "archive"},
		{Topic: "*-domain-event", As: "domain"},
		{EventType: "payment.*", Broker: "never"},
	}
	for _, c := range []struct {
		event settle.Event
		want  string
	}{
		{settle.Event{Type: "order.created", Topic: "audit"}, "all@archive"},
		{settle.Event{Type: "order.", Topic: "audit"}, "all@archive"},
		{settle.Event{Type: "order", Topic: "audit"}, "audit"},
		{settle.Event{Type: "order.created", Topic: "audits"}, "audits"},
		{settle.Event{Type: "payment.captured", AggregateType: "Payment"}, "order-domain-event@bank"},
		{settle.Event{Type: "payment.failed", AggregateType: "Payment", Topic: "p"}, "p@archive"},
		{settle.Event{Type: "payment.failed", AggregateType: "Pyment", Topic: "p"}, "p@never"},
		{settle.Event{Type: "x"}, "domain"},
		{settle.Event{Type: "x", Topic: "a@b"}, "a@b@"},
	} {
		if got := Destinations(routes, &c.event); !slices.Equal(got, []string{c.want}) {
			t.Errorf("%+v goes to %s, want %s", c.event, got, c.want)
		}
	}
	if got := Destinations(nil, &settle.Event{}); !slices.Equal(got, []string{settle.DefaultTopic}) {
		t.Errorf("without routes an event without a topic goes to %s", got)
	}
}

func TestPatternsMatchWholeTexts(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true}, {"", "a", true}, {"a", "a", true}, {"a", "ab", false}, {"a", "", false}, {"?", "", false}, {"?", "ab", false},
		{"*", "", true}, {"*", "abc", true}, {"a*c", "abbc", true}, {"a*c", "abcb", false}, {"*b*", "abc", true}, {"*ab", "aab", true},
		{"a*b*c", "aXbYbZc", true}, {"a**", "a", true}, {"*a*a*", "a", false}, {"a.b", "aXb", false}, {"a?c*", "abc", true},
	} {
		if got := matches(c.pattern, c.text); got != c.want {
			t.Errorf("pattern %q on %q: %v", c.pattern, c.text, got)
		}
	}
}

func TestNamesOfDestinationsAreReadAsTheyWereWritten(t *testing.T) {
	for _, c := range [][2]string{{"", "t"}, {"b", "t"}, {"", "a@b"}, {"b", "a@b"}, {"", "a@"}, {"", "@"}} {
		name := DestinationName(c[0], c[1])
		if broker, topic := splitName(name); broker != c[0] || topic != c[1] {
			t.Errorf("topic %q of broker %q is called %q, and read as topic %q of broker %q", c[1], c[0], name, topic, broker)
		}
	}
}

// BenchmarkRoutes is what a route costs for each event.
func BenchmarkRoutes(b *testing.B) {
	m := NewMachine(Config{Routes: []Route{{EventType: "a*", Broker: "x"}, {EventType: "o*", Broker: "y"}}})
	m.routing.begin(nil, m.cfg.Routes, 0)
	rows := make([]Row, 512)
	for i := range rows {
		rows[i] = Row{ID: int64(i + 1), Event: &settle.Event{Type: "order.created", AggregateType: "Order", Topic: fmt.Sprint("t", i%4)}}
	}
	for i := 0; b.Loop(); i++ {
		m.destinationsOf(&rows[i%512], FromLog)
	}
}
