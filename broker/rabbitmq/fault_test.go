package rabbitmq_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/rabbitmq"
)

// bare is a rig whose topic has no queue.
func bare(t testing.TB) *rig {
	t.Helper()
	r := newRig(t, serverForTest(t))
	if _, err := r.ch.QueueDelete(r.topic+".log", false, false, false); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAnEventThatNoQueueTakesIsATopicError(t *testing.T) {
	r := bare(t)
	b := closing(t, r.open(t, r.config()))
	batch := events(r.topic, "k", 26)
	for i, got := range b.Publish(t.Context(), batch) {
		if settle.ScopeOf(got.Err) != settle.ScopeTopic || !strings.Contains(got.Err.Error(), "no queue is bound to exchange") {
			t.Fatalf("event %d: got %v, want a topic error that says why", i, got.Err)
		}
	}
	r.introduce(t, "first")
	publishAll(t, b, batch) // the line is still good
}

func TestAnEventOfATypeThatNobodyWantsIsARecordErrorAndItsNeighboursGo(t *testing.T) {
	r := bare(t)
	r.remove()
	cfg := r.config()
	cfg.Kind = "topic"
	b := closing(t, r.open(t, cfg))
	r.logs(t)
	if err := r.ch.QueueUnbind(r.topic+".log", "#", r.topic, nil); err != nil {
		t.Fatal(err)
	}
	if err := r.ch.QueueBind(r.topic+".log", "order.*", r.topic, false, nil); err != nil {
		t.Fatal(err)
	}
	batch := events(r.topic, "k", 20)
	for i := range batch {
		if batch[i].Event.Type = "order.paid"; i%2 == 1 {
			batch[i].Event.Type = "mail.sent"
		}
	}
	for i, got := range b.Publish(t.Context(), batch) {
		switch {
		case i%2 == 0 && got.Err != nil:
			t.Errorf("a wanted event: %v", got.Err)
		case i%2 == 1 && (got.Err == nil || settle.ScopeOf(got.Err) != settle.ScopeRecord):
			t.Errorf("an event that nobody wants: got %v, want a record error", got.Err)
		}
	}
}

func TestAMissingTopicFailsNoEventOfAnother(t *testing.T) {
	r := newRig(t, serverForTest(t))
	b := closing(t, r.open(t, r.config()))
	batch := events(r.topic, "k", 26)
	for i := range batch {
		if i%2 == 1 {
			batch[i] = event("missing-"+r.topic, "m"+batch[i].Event.AggregateID, 1)
		}
	}
	for range 3 { // also on lines that were used
		for i, got := range b.Publish(t.Context(), batch) {
			switch {
			case i%2 == 0 && got.Err != nil:
				t.Fatalf("an event of the topic that is there: %v", got.Err)
			case i%2 == 1 && (got.Err == nil || settle.ScopeOf(got.Err) != settle.ScopeTopic):
				t.Fatalf("an event of a missing topic: got %v, want a topic error", got.Err)
			}
		}
	}
}

func TestOrderOfAKeyHoldsAcrossTopics(t *testing.T) {
	r := newRig(t, serverForTest(t))
	b := closing(t, r.open(t, r.config()))
	first, second := event("missing-"+r.topic, "k", 1), event(r.topic, "k", 2)
	if got := b.Publish(t.Context(), []settle.Message{first, second}); got[1].Err == nil {
		t.Error("the second event of a key was sent although the first, to another topic, was refused")
	}
}

func TestWhatExistsAndDiffersIsNamed(t *testing.T) {
	for what, c := range map[string]struct {
		plant func(t *testing.T, r *rig)
		want  []string
	}{
		"an exchange of another kind": {func(t *testing.T, r *rig) {
			if err := r.ch.ExchangeDeclare(r.topic, "direct", true, false, false, false, nil); err != nil {
				t.Fatal(err)
			}
		}, []string{"exchange", `its type is "direct", declared is "fanout"`, "delete it when it is empty"}},
		"a classic queue": {func(t *testing.T, r *rig) {
			if _, err := r.ch.QueueDeclare(r.topic+".g.0", true, false, false, false, amqp.Table{"x-queue-type": "classic"}); err != nil {
				t.Fatal(err)
			}
		}, []string{`.g.0" exists and differs: its x-dead-letter-exchange is none, declared is ""`}},
		"more queues": {func(t *testing.T, r *rig) {
			cfg := r.config("g")
			cfg.Partitions++
			_ = closing(t, r.open(t, cfg))
			t.Cleanup(func() { _, _ = r.ch.QueueDelete(r.topic+".g.4", false, false, false) })
		}, []string{"more queues than the 4 declared", ".g.4"}},
	} {
		t.Run(what, func(t *testing.T) {
			r := bare(t)
			r.remove()
			r.groups = []string{"g"}
			c.plant(t, r)
			b, err := rabbitmq.Open(t.Context(), r.at, r.config("g"))
			if err == nil {
				_ = b.Close()
				t.Fatal("it was taken for what is declared")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

func TestWhoMayNotIsToldSoAndGoesOnWhenHeMay(t *testing.T) {
	r := newRig(t, serverForTest(t))
	m := manage(t, r.at)
	r.introduce(t, "g")
	batch := events(r.topic, "k", 3)
	open := func(t *testing.T, configure, write, read string, c *collector) *rabbitmq.Broker {
		cfg := r.config()
		cfg.Topics, cfg.Log = nil, slog.New(c)
		b, err := rabbitmq.Open(t.Context(), m.newUser(r.at, configure, write, read), cfg)
		if err != nil {
			t.Fatal(err)
		}
		return closing(t, b)
	}
	t.Run("write", func(t *testing.T) {
		for i, got := range open(t, "", "", "", newCollector()).Publish(t.Context(), batch) {
			if settle.ScopeOf(got.Err) != settle.ScopeTopic || !strings.Contains(got.Err.Error(), "set_permissions") {
				t.Errorf("event %d: got %v, want a topic error that says what to do", i, got.Err)
			}
		}
	})
	t.Run("configure", func(t *testing.T) {
		cfg := r.config("g")
		_, err := rabbitmq.Open(t.Context(), m.newUser(r.at, "", ".*", ".*"), cfg)
		if err == nil || !strings.Contains(err.Error(), "set_permissions") {
			t.Errorf("Open: %v, want what to do", err)
		}
	})
	t.Run("read", func(t *testing.T) {
		c := newCollector()
		b := open(t, ".*", ".*", "^$", c)
		c.subscribe(t, b, "g", r.topic)
		c.await(t, "the reason", func() bool { return c.told("set_permissions") == 1 })
		publishAll(t, b, batch)
	})
}

func TestTheRightsThatTheDocumentsAskForAreEnough(t *testing.T) {
	r := newRig(t, serverForTest(t))
	r.groups = []string{"g"}
	all := "^" + r.topic + `(\..*)?$`
	r.at = manage(t, r.at).newUser(r.at, all, "^("+r.topic+`(\..*)?|amq\.default)$`, all)
	b := closing(t, r.open(t, r.config("g")))
	batch := events(r.topic, "k", 26)
	publishAll(t, b, batch)
	c := newCollector()
	c.subscribe(t, b, "g", r.topic)
	c.await(t, "all events", func() bool { return c.has(batch) })
}

func TestEventsOfOthersWithoutAKeyKeepTheirOrder(t *testing.T) {
	r := newRig(t, serverForTest(t))
	r.introduce(t, "g")
	for i := range 50 {
		err := r.ch.PublishWithContext(t.Context(), r.topic, "their.type", true, false, amqp.Publishing{Body: []byte{byte(i)}, DeliveryMode: amqp.Persistent})
		if err != nil {
			t.Fatal(err)
		}
	}
	c := newCollector()
	c.subscribe(t, closing(t, r.open(t, r.config())), "g", r.topic)
	c.await(t, "all records", func() bool { return len(c.records) == 50 })
	for i, got := range c.records {
		if int(got.Raw[0]) != i || got.At.Partition != c.records[0].At.Partition || got.Key != "their.type" {
			t.Fatalf("record %d is %v of partition %d with key %q", i, got.Raw, got.At.Partition, got.Key)
		}
	}
}

func TestAQueueThatIsDeletedUnderItsConsumerIsMadeAgain(t *testing.T) {
	r := newRig(t, serverForTest(t))
	r.introduce(t, "g")
	c, cfg := newCollector(), r.config()
	cfg.Log = slog.New(c)
	b := closing(t, r.open(t, cfg))
	c.subscribe(t, b, "g", r.topic)
	first := events(r.topic, "k", 26)
	publishAll(t, b, first)
	c.await(t, "all events", func() bool { return c.has(first) })
	for _, q := range []string{r.topic + ".g.0", r.topic + ".g.2", r.topic + ".g.members"} {
		if _, err := r.ch.QueueDelete(q, false, false, false); err != nil {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(patience)
	for n := 0; n < 2; { // both have a consumer again
		n = 0
		for _, q := range []string{r.topic + ".g.0", r.topic + ".g.2"} {
			ch := r.channel(t)
			if found, err := ch.QueueDeclarePassive(q, true, false, false, false, nil); err == nil && found.Consumers > 0 {
				n++
			}
			_ = ch.Close()
		}
		if time.Now().After(deadline) {
			t.Fatal("the queues are not made again")
		}
		time.Sleep(20 * time.Millisecond)
	}
	second := events(r.topic, "l", 26)
	publishAll(t, b, second)
	c.await(t, "all events", func() bool { return c.has(second) })
}

func TestAMemberWhoseQueueOfMembersIsMadeAgainByOthersIsCounted(t *testing.T) {
	r := newRig(t, serverForTest(t))
	r.introduce(t, "g")
	c := newCollector()
	b := closing(t, r.open(t, r.config()))
	c.subscribe(t, b, "g", r.topic)
	first := events(r.topic, "k", 26)
	publishAll(t, b, first)
	c.await(t, "all events", func() bool { return c.has(first) })
	members := r.topic + ".g.members"
	if _, err := r.ch.QueueDelete(members, false, false, false); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	for n := 0; n != 1; time.Sleep(20 * time.Millisecond) {
		found, err := r.ch.QueueDeclare(members, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
		if n = found.Consumers; err != nil || time.Now().After(deadline) {
			t.Fatalf("%d members are counted, want 1: %v", n, err)
		}
	}
}

func TestConnectionsThatAreClosedAreMadeAgainAndToldOnce(t *testing.T) {
	r := newRig(t, serverForTest(t))
	r.introduce(t, "g")
	c, cfg := newCollector(), r.config()
	cfg.Log, cfg.Name = slog.New(c), r.topic
	b := closing(t, r.open(t, cfg))
	c.subscribe(t, b, "g", r.topic)
	first := events(r.topic, "k", 26)
	publishAll(t, b, first)
	c.await(t, "all events", func() bool { return c.has(first) })
	manage(t, r.at).cut(r.topic, 2)
	second := events(r.topic, "l", 26)
	publishAll(t, b, second)
	c.await(t, "all events, and to be told", func() bool { return c.has(second) && c.told("connected to RabbitMQ again") == 2 })
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.lines) != 4 || c.told("no connection to RabbitMQ; connecting goes on") != 2 {
		t.Errorf("the log says %q, want that each connection went and came, once", c.lines)
	}
}

func TestWhatTheBrokerWouldActOnArrivesAsItWasSent(t *testing.T) {
	r := newRig(t, serverForTest(t))
	r.introduce(t, "g")
	b := closing(t, r.open(t, r.config()))
	m := event(r.topic, "k", 1)
	long := strings.Repeat("n", 3000)
	m.Event.Headers = map[string]string{"CC": "a.queue", "BCC": "another", "x-death": "never", "x-delivery-count": "7", "x-match": "all", long: "v"}
	publishAll(t, b, []settle.Message{m})
	c := newCollector()
	c.subscribe(t, b, "g", r.topic)
	c.await(t, "the event", func() bool { return c.has([]settle.Message{m}) })
	for k, v := range m.Event.Headers {
		if got := c.records[0].Event.Headers[k]; got != v {
			t.Errorf("header %.20s: %q has arrived as %q", k, v, got)
		}
	}
	if n := len(c.records[0].Event.Headers); n != len(m.Event.Headers) {
		t.Errorf("%d headers have arrived, want %d", n, len(m.Event.Headers))
	}
}

func TestWhatOthersBindToATopicIsWhatSpringReads(t *testing.T) {
	r := newRig(t, serverForTest(t))
	b := closing(t, r.open(t, r.config()))
	m := event(r.topic, "key €", 7)
	publishAll(t, b, []settle.Message{m})
	d, ok, err := r.ch.Get(r.topic+".log", true)
	if err != nil || !ok {
		t.Fatalf("nothing in the queue: %v", err)
	}
	if d.MessageId != m.ID || d.Type != m.Event.Type || d.RoutingKey != m.Event.Type || d.AppId != "test" || d.ContentType != "application/json" ||
		d.DeliveryMode != amqp.Persistent || !d.Timestamp.Equal(m.Event.AppendedAt) || d.Headers[settle.HeaderAggregateID] != "key €" {
		t.Errorf("it arrived as %+v", d)
	}
}

func TestPublishWaitsForABrokerThatIsAwayUntilItsContextEnds(t *testing.T) {
	r := newRig(t, serverForTest(t))
	away := newAway()
	cfg := r.config()
	cfg.Dial = away.dial
	b := closing(t, r.open(t, cfg))
	away.leave()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	for _, got := range b.Publish(ctx, events(r.topic, "k", 3)) {
		if got.Err == nil || settle.ScopeOf(got.Err) != settle.ScopeBroker || errors.Is(got.Err, settle.ErrClosed) {
			t.Errorf("got %v, want a broker error", got.Err)
		}
	}
	waiting := make(chan []settle.Receipt, 1)
	go func() { waiting <- b.Publish(context.Background(), events(r.topic, "k", 3)) }()
	away.come()
	for _, got := range <-waiting {
		if got.Err != nil && settle.ScopeOf(got.Err) != settle.ScopeBroker {
			t.Errorf("after the broker has come back: %v", got.Err)
		}
	}
	publishAll(t, b, events(r.topic, "k", 3))
	away.leave()
	go func() { waiting <- b.Publish(context.Background(), events(r.topic, "k", 3)) }()
	if err := b.Close(); err != nil { // which does not wait for the broker
		t.Error(err)
	}
	<-waiting
}
