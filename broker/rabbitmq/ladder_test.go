package rabbitmq_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/bridge/bridgetest"
	"github.com/settlemq/settle/broker/rabbitmq"
)

func (c *climber) declare(b *rabbitmq.Broker) bridge.Group {
	c.t.Helper()
	g, err := b.Declare(c.t.Context(), c.ladder)
	must(c.t, err)
	return g
}

func TestWhatIsRejectedWaitsInEachStepOfTheLadderAndIsDeadBehindTheLast(t *testing.T) {
	steps := []time.Duration{300 * time.Millisecond, 700 * time.Millisecond, 500 * time.Millisecond}
	c := newClimber(t, serverForTest(t), steps...)
	b := closing(t, c.connection(t))
	g := c.declare(b)
	if g.Retry != c.queue() || !slices.Equal(g.Dead, []string{c.queue() + ".dead"}) || g.Name != "points" {
		t.Fatalf("the group is %+v", g)
	}
	c.send(c.topic, "order.paid", amqp.Publishing{Body: []byte("x"), MessageId: "m1"})
	before := time.Now()
	for n := 0; ; n++ {
		d := c.awaited(c.queue())
		if n == 0 && d.RoutingKey != "order.paid" || n > 0 && d.RoutingKey != c.queue()+".retry."+string(rune('0'+n)) {
			t.Errorf("attempt %d has the routing key %q", n+1, d.RoutingKey)
		}
		// The broker's clock begins when the message is in the step.
		if waited := time.Since(before); n > 0 && waited < steps[n-1] {
			t.Errorf("attempt %d comes after %s, the step lasts %s", n+1, waited, steps[n-1])
		}
		before = time.Now()
		must(t, d.Nack(false, false))
		if n == len(steps) {
			break
		}
	}
	l := bridgetest.Letters(t, b, g, 1)[0]
	switch want := (bridge.Place{Exchange: c.topic, RoutingKey: "order.paid", Queue: c.queue()}); {
	case l.From != want:
		t.Errorf("it came from %+v, want %+v", l.From, want)
	case l.Attempts != 4 || l.Class != settle.ClassDecode || l.At.Queue != g.Dead[0] || l.ReturnID != "":
		t.Errorf("the letter is %+v", l)
	case len(l.History) != 4 || l.History[0].Reason != "rejected" || l.History[0].Count != 4 || l.DiedAt.IsZero():
		t.Errorf("its history is %+v, died at %s", l.History, l.DiedAt)
	}
}

func TestWhatIsDeliveredTooOftenIsDeadAtOnceAndWhatIsBothIsNotLost(t *testing.T) {
	c := newClimber(t, serverForTest(t), time.Millisecond, time.Millisecond)
	b := closing(t, c.open(t, rabbitmq.Config{DeliveryLimit: 2}))
	g := c.declare(b)
	requeue := func(times int) {
		for range times {
			must(t, c.awaited(c.queue()).Nack(false, true))
		}
	}
	c.send(c.topic, "k", amqp.Publishing{Body: []byte("poison"), MessageId: "m1"})
	requeue(3)
	l := bridgetest.Letters(t, b, g, 1)[0]
	if l.Class != settle.ClassDecode || len(l.History) != 1 || l.History[0].Reason != "delivery_limit" {
		t.Errorf("the letter is %+v", l)
	}
	envelope := settle.AppendEnvelope(nil, &settle.Event{ID: "e1", Type: "order.paid", AggregateID: "o1", Payload: []byte(`{}`)})
	c.send(c.topic, "k", amqp.Publishing{Body: envelope, MessageId: "m2"})
	requeue(3)
	if l = bridgetest.Letters(t, b, g, 1)[0]; l.Class != settle.ClassCrashLoop {
		t.Errorf("the class is %q", l.Class)
	}
	// Rejected first, then too often delivered: which steps it still takes is the
	// server's version's affair, where it ends is not.
	c.send(c.topic, "k", amqp.Publishing{Body: envelope, MessageId: "m3"})
	c.reject(1)
	for {
		d, is := c.get(c.queue(), 2*time.Second)
		if !is {
			break
		}
		must(t, d.Nack(false, true))
	}
	if l = bridgetest.Letters(t, b, g, 1)[0]; l.Attempts != 1 || l.Record.Event.ID != "e1" {
		t.Errorf("the letter is %+v", l)
	}
}

func TestALadderThatDiffersFromWhatIsThereIsRefusedAndNothingIsChanged(t *testing.T) {
	c := newClimber(t, serverForTest(t), time.Minute, time.Hour)
	b := closing(t, c.connection(t))
	c.declare(b)
	for name, change := range map[string]struct {
		steps []time.Duration
		says  string
	}{
		"another time": {[]time.Duration{2 * time.Minute, time.Hour}, `".retry.1" exists and differs: its x-message-ttl is "60000", declared is "120000"`},
		"more steps":   {[]time.Duration{time.Minute, time.Hour, time.Hour}, "another number of steps than the 3 declared"},
		"fewer steps":  {[]time.Duration{time.Minute}, "another number of steps than the 1 declared"},
	} {
		l := c.ladder
		l.Steps = change.steps
		if _, err := b.Declare(t.Context(), l); err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), c.queue(), ""), change.says) {
			t.Errorf("%s: got %v, want %q in it", name, err, change.says)
		}
	}
	c.declare(b)
	c.send(c.topic, "k", amqp.Publishing{Body: []byte("x")})
	c.reject(1)
	if q, err := c.ch.QueueDeclarePassive(c.queue()+".retry.1", true, false, false, false, nil); err != nil || q.Messages > 1 {
		t.Errorf("in the first step are %d messages, %v", q.Messages, err)
	}
}

func TestALadderForAQueueThatIsThereAndIsOfAnotherKindIsRefusedByName(t *testing.T) {
	c := newClimber(t, serverForTest(t), time.Minute)
	b := closing(t, c.connection(t))
	c.ladder.Queue = "q" + c.topic[len(c.topic)-12:] // RabbitMQ cuts what it says
	t.Cleanup(func() {
		queues, exchanges := rabbitmq.LadderForTest(c.ladder.Queue, 1)
		for _, q := range queues {
			_, _ = c.ch.QueueDelete(q, false, false, false)
		}
		for _, e := range exchanges {
			_ = c.ch.ExchangeDelete(e, false, false)
		}
	})
	if _, err := c.ch.QueueDeclare(c.ladder.Queue, true, false, false, false, amqp.Table{"x-queue-type": "classic"}); err != nil {
		t.Fatal(err)
	}
	_, err := b.Declare(t.Context(), c.ladder)
	if want := "the queue " + strconv.Quote(c.ladder.Queue) + " exists and differs: its x-dead-letter-exchange is none"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q in it", err, want)
	}
}

func TestALadderThatCanNotBeIsRefused(t *testing.T) {
	c := newClimber(t, serverForTest(t))
	b := closing(t, c.connection(t))
	for _, l := range []bridge.Ladder{
		{Topic: c.topic}, {Group: "g"}, {Topic: c.topic, Group: "g", Queue: strings.Repeat("q", 241)}, {Topic: c.topic, Group: "g", Queue: "amq.q"},
		{Topic: c.topic, Group: "g", Steps: []time.Duration{time.Microsecond}}, {Topic: c.topic, Group: "g", Steps: []time.Duration{60 * 24 * time.Hour}},
		{Topic: c.topic, Group: "g", Steps: slices.Repeat([]time.Duration{time.Second}, 17)},
	} {
		if g, err := b.Declare(t.Context(), l); err == nil {
			t.Errorf("%+v makes %+v", l, g)
		}
	}
}
