package nats_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/bridge/bridgetest"
)

// goesOnAsking asks as a consumer does that runs: the server says that a message has
// come often enough when its consumer asks again.
func (c *climber) goesOnAsking(stream string) {
	c.t.Helper()
	eventually(c.t, "the server to say that it was given up", func() bool {
		if m := c.fetch(0, "stock", stream); m != nil {
			c.t.Fatalf("%q comes again", m.Data())
		}
		return c.left("settle-dead-"+stream+"-stock") == 1
	})
}

func TestOnALadderAMessageComesAgainAsOftenAsThereAreStepsAndIsDeadThen(t *testing.T) {
	c := newClimber(t, "nats://"+serveWith(t, server.Options{}))
	c.ladder.Steps = []time.Duration{300 * time.Millisecond, 600 * time.Millisecond}
	b, g := c.declared()
	if g.Name != "stock" || len(g.Dead) != 2 || g.Dead[0] != c.stream() || g.Dead[1] != c.returned() || g.Retry != "settle.retry."+c.stream()+".stock" {
		t.Fatalf("the group is %+v", g)
	}
	e := &settle.Event{ID: "e1", Type: "order.created", AggregateID: "o-1", Payload: []byte("{}")}
	c.publish("o-1", settle.AppendEnvelope(nil, e), map[string]string{"x-team": "stock"})
	fails := func(stream string) {
		t.Helper()
		last := time.Now()
		for n, wait := range []time.Duration{0, 300 * time.Millisecond, 600 * time.Millisecond} {
			m := c.fetch(time.Minute, "stock", stream) // and never says a word of it
			if m == nil {
				t.Fatalf("attempt %d does not come", n+1)
			}
			meta, err := m.Metadata()
			if err != nil || meta.NumDelivered != uint64(n+1) {
				t.Fatalf("attempt %d is the %d., %v", n+1, meta.NumDelivered, err)
			}
			if waited := time.Since(last); waited < wait/2 {
				t.Errorf("attempt %d comes after %s", n+1, waited)
			}
			last = time.Now()
		}
		c.goesOnAsking(stream)
	}
	fails(c.stream())
	first := bridgetest.Letters(t, b, g, 1)[0]
	if first.Attempts != 3 || first.Record.Event == nil || first.Record.Event.ID != "e1" || first.Record.Event.Topic != c.ladder.Topic || first.Record.Headers["x-team"] != "stock" || first.Class != settle.ClassHandler {
		t.Errorf("the letter is %+v", first)
	}
	if err := bridgetest.SendBack(t, b, g, first, bridge.ToGroup); err != nil {
		t.Fatal(err)
	}
	fails(c.returned())
	again := bridgetest.Letters(t, b, g, 1)[0]
	if again.Attempts != 3 || again.ReturnID != "r1" || again.From != first.From || again.At.Topic != c.returned() || again.Identity == first.Identity {
		t.Errorf("the second death is %+v, the first %+v", again, first)
	}
}

func TestAMessageThatIsRefusedAtOnceEachTimeIsDead(t *testing.T) {
	c := newClimber(t, "nats://"+serveWith(t, server.Options{}))
	b, g := c.declared()
	c.publish("k", []byte("odd"), nil)
	for range 4 {
		if err := c.fetch(time.Minute, "stock", c.stream()).Nak(); err != nil {
			t.Fatal(err)
		}
	}
	c.goesOnAsking(c.stream())
	if l := bridgetest.Letters(t, b, g, 1)[0]; l.Attempts != 4 || string(l.Record.Raw) != "odd" {
		t.Errorf("the letter is %+v", l)
	}
}

func TestAConsumerThatClimbsAnotherLadderIsRefusedAndNotChanged(t *testing.T) {
	c := newClimber(t, "nats://"+serveWith(t, server.Options{}))
	b := c.connection(t)
	defer func() { _ = b.Close() }()
	refused := func(l bridge.Ladder, says string) {
		t.Helper()
		if g, err := b.Declare(t.Context(), l); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v is %+v, %v; want %q", l, g, err, says)
		}
	}
	steps := []time.Duration{time.Second, time.Minute}
	for _, o := range []struct {
		there jetstream.ConsumerConfig
		says  string
	}{
		{jetstream.ConsumerConfig{AckPolicy: jetstream.AckAllPolicy, MaxDeliver: 3, BackOff: steps}, "its ack_policy is AckAll, not AckExplicit"},
		{jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: 7, BackOff: steps}, "its max_deliver is 7, not 3"},
		{jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy}, "its max_deliver is -1, not 3"},
		{jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: 3, BackOff: steps[:1]}, "its backoff is [1s], not [1s 1m0s]"},
		{jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: 3}, "its backoff is [], not [1s 1m0s]"},
	} {
		o.there.Durable = "stock"
		made, err := c.js.CreateConsumer(t.Context(), c.stream(), o.there)
		if err != nil {
			t.Fatal(err)
		}
		refused(bridge.Ladder{Topic: c.ladder.Topic, Group: "stock", Steps: steps}, o.says)
		now, err := made.Info(t.Context())
		if err != nil || now.Config.MaxDeliver != made.CachedInfo().Config.MaxDeliver || len(now.Config.BackOff) != len(o.there.BackOff) {
			t.Errorf("the consumer was changed to %+v, %v", now.Config, err)
		}
		if err := c.js.DeleteConsumer(t.Context(), c.stream(), "stock"); err != nil {
			t.Fatal(err)
		}
	}
	topic := c.ladder.Topic
	refused(bridge.Ladder{Topic: topic, Group: "g", Queue: "q"}, "durable consumer of its topic's stream")
	refused(bridge.Ladder{Topic: "missing", Group: "g"}, `stream "missing": topic "missing": `)
	refused(bridge.Ladder{Topic: "a b", Group: "g"}, "no space")
	refused(bridge.Ladder{Group: "g"}, "no topic is named")
	refused(bridge.Ladder{Topic: topic, Group: "a.b"}, `no name like "a.b"`)
	refused(bridge.Ladder{Topic: topic, Group: "g", Steps: make([]time.Duration, 17)}, "at most 16 steps")
}
