package rabbitmq_test

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/bridge/bridgetest"
	"github.com/settlemq/settle/broker/rabbitmq"
)

func TestAMessageComesBackWithItsPropertiesAndTypedHeaders(t *testing.T) {
	c := newClimber(t, serverForTest(t), time.Millisecond)
	b := closing(t, c.connection(t))
	g := c.declare(b)
	headers := amqp.Table{
		"t": true, "b": int8(-3), "B": uint8(200), "s": int16(-300), "I": int32(-70000), "l": int64(1) << 60, "f": float32(0.1), "d": 0.1,
		"D": amqp.Decimal{Scale: 2, Value: 110}, "S": "订单", "cut": "\xff\x00", "x": []byte{0, 1, 255}, "T": time.Unix(1_700_000_000, 0).UTC(), "V": nil,
		"F": amqp.Table{"in": int64(1), "list": []any{"a", int64(2), amqp.Table{"z": false}}}, "A": []any{uint8(1), "x"}, "": "no name", "empty": "",
	}
	sent := amqp.Publishing{
		Headers: maps.Clone(headers), ContentType: "application/x-thing", ContentEncoding: "gzip", Priority: 7, CorrelationId: "c1", ReplyTo: "somewhere",
		Expiration: "3600000", MessageId: "m1", Timestamp: time.Unix(1_700_000_001, 0), Type: "thing", AppId: "app", Body: []byte{0, 255, 1},
	}
	c.send(c.topic, "some.key", sent)
	c.reject(2)
	l := bridgetest.Letters(t, b, g, 1)[0]
	for _, to := range []bridge.Target{bridge.ToGroup, bridge.ToOrigin} {
		if err := bridgetest.SendBack(t, b, g, l, to); err != nil {
			t.Fatal(err)
		}
		got := c.awaited(c.queue())
		must(t, got.Ack(false))
		if got.Headers[bridge.HeaderReturn] != "r1" {
			t.Errorf("the return's id is %v", got.Headers[bridge.HeaderReturn])
		}
		for _, added := range []string{bridge.HeaderReturn, "settle-origin", "x-delivery-count"} {
			delete(got.Headers, added)
		}
		if at, is := got.Headers["T"].(time.Time); is {
			got.Headers["T"] = at.UTC()
		}
		if !reflect.DeepEqual(got.Headers, headers) {
			t.Errorf("the headers are\n%#v, want\n%#v", got.Headers, headers)
		}
		back := amqp.Publishing{
			Headers: sent.Headers, ContentType: got.ContentType, ContentEncoding: got.ContentEncoding, Priority: got.Priority, CorrelationId: got.CorrelationId,
			ReplyTo: got.ReplyTo, Expiration: got.Expiration, MessageId: got.MessageId, Timestamp: got.Timestamp, Type: got.Type, AppId: got.AppId, Body: got.Body,
		}
		if !reflect.DeepEqual(back, sent) || got.DeliveryMode != amqp.Persistent {
			t.Errorf("it came back as\n%+v, was\n%+v", back, sent)
		}
		if to == bridge.ToOrigin && got.RoutingKey != "some.key" {
			t.Errorf("its routing key is %q", got.RoutingKey)
		}
	}
}

func TestCopiesThatAMessageAsksForGoWithItToItsOriginOnly(t *testing.T) {
	c := newClimber(t, serverForTest(t), time.Millisecond)
	b := closing(t, c.connection(t))
	g := c.declare(b)
	// The default exchange would read the key as the name of a queue.
	c.send(c.topic, "k", amqp.Publishing{Headers: amqp.Table{"CC": []any{c.topic + otherQueue}}, Body: []byte("x")})
	c.reject(2)
	for range 1 { // one for a queue that two keys lead to
		must(t, c.awaited(c.topic+otherQueue).Ack(false))
	}
	l := bridgetest.Letters(t, b, g, 1)[0]
	must(t, bridgetest.SendBack(t, b, g, l, bridge.ToGroup))
	must(t, c.awaited(c.queue()).Ack(false))
	if d, is := c.get(c.topic+otherQueue, time.Second); is {
		t.Errorf("another group has received %q with %v", d.Body, d.Headers)
	}
}

func TestAReturnThatNobodyWouldGetFailsAndOneThatCanNotBeIsRefusedForGood(t *testing.T) {
	c := newClimber(t, serverForTest(t), time.Millisecond)
	b := closing(t, c.connection(t))
	g := c.declare(b)
	c.send(c.topic, "k", amqp.Publishing{Body: []byte("x"), MessageId: "m1"})
	c.reject(2)
	l := bridgetest.Letters(t, b, g, 1)[0]
	nowhere := g
	nowhere.Retry = "nowhere-" + c.topic
	if err := bridgetest.SendBack(t, b, nowhere, l, bridge.ToGroup); settle.ScopeOf(err) != settle.ScopeTopic || !strings.Contains(err.Error(), `there is no queue "nowhere-`) {
		t.Errorf("to a queue that is not there: %v", err)
	}
	moved := l
	moved.From.Exchange = "nowhere-" + c.topic
	if err := bridgetest.SendBack(t, b, g, moved, bridge.ToOrigin); settle.ScopeOf(err) != settle.ScopeTopic {
		t.Errorf("to an exchange that is not there: %v", err)
	}
	for name, change := range map[string]func(*bridge.Letter){
		"without a wrapping":         func(l *bridge.Letter) { l.Wrapping = nil },
		"with a broken wrapping":     func(l *bridge.Letter) { l.Wrapping = []byte("{") },
		"from nowhere":               func(l *bridge.Letter) { l.From = bridge.Place{} },
		"with headers above a frame": func(l *bridge.Letter) { l.Record.Headers = map[string]string{"h": strings.Repeat("x", 130<<10)} },
	} {
		changed := l
		change(&changed)
		if err := bridgetest.SendBack(t, b, g, changed, bridge.ToOrigin); settle.ScopeOf(err) != settle.ScopeRecord || !settle.IsPermanent(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, bridgetest.SendBack(t, b, g, l, bridge.ToOrigin)) // the connection was not ended by any of these
}

func TestLargeHeadersGoBackAsText(t *testing.T) {
	c := newClimber(t, serverForTest(t), time.Millisecond)
	b := closing(t, c.connection(t))
	g := c.declare(b)
	text, bytes := strings.Repeat("ä", 45<<10), []byte(strings.Repeat("\x00\xff", 40<<10))
	c.send(c.topic, "k", amqp.Publishing{Headers: amqp.Table{"text": text}, Body: []byte("x")})
	c.reject(2)
	c.send(c.topic, "k", amqp.Publishing{Headers: amqp.Table{"bytes": bytes}, Body: []byte("y")})
	c.reject(2)
	found := bridgetest.Letters(t, b, g, 2)
	must(t, bridgetest.SendBack(t, b, g, found[0], bridge.ToGroup))
	if d := c.awaited(c.queue()); d.Headers["text"] != text {
		t.Errorf("the text has not come back: %d bytes", len(d.Headers))
	}
	if l := found[1]; len(l.To) != 0 || l.Wrapping != nil || string(l.Record.Raw) != "y" {
		t.Errorf("what can't go back as it was can go to %v", l.To)
	}
}

func TestLettersOfASettleGroupThatWereDeliveredTooOftenGoBackToTheirPartition(t *testing.T) {
	r := newRig(t, serverForTest(t))
	r.introduce(t, "stock")
	b := closing(t, r.open(t, rabbitmq.Config{Topics: []string{r.topic}, Groups: []string{"own"}, Partitions: partitions, DeliveryLimit: 1}))
	r.groups = append(r.groups, "own")
	publishAll(t, b, events(r.topic, "k", 4))
	own := r.topic + ".own"
	killing := r.channel(t)
	for n := range partitions {
		found, err := killing.Consume(own+"."+string(rune('0'+n)), "", false, false, false, false, nil)
		must(t, err)
		go func() {
			for d := range found {
				_ = d.Nack(false, true)
			}
		}()
	}
	g := bridge.Group{Name: "own", Dead: []string{own + ".dead"}, Retry: own}
	died := bridgetest.Letters(t, b, g, 4)
	must(t, killing.Close())
	want := map[string]int{}
	for _, l := range died {
		if l.Class != settle.ClassCrashLoop || l.From.Exchange != r.topic || l.From.RoutingKey != "test.happened" || !strings.HasPrefix(l.From.Queue, own+".") || l.Record.Event == nil {
			t.Fatalf("the letter is %+v", l)
		}
		must(t, bridgetest.SendBack(t, b, g, l, bridge.ToGroup))
		want[l.From.Queue]++
	}
	for queue, n := range want {
		if q, err := r.ch.QueueDeclarePassive(queue, true, false, false, false, nil); err != nil || q.Messages != n {
			t.Errorf("in %q are %d messages, want %d, %v", queue, q.Messages, n, err)
		}
	}
}

func TestLettersThatWereInHandWhenTheConnectionWasCutComeAgainAndNoneIsLost(t *testing.T) {
	at := serverForTest(t)
	c := newClimber(t, at, time.Millisecond)
	b := closing(t, c.connection(t))
	g := c.declare(b)
	const n = 100
	for i := range n {
		c.send("", g.Dead[0], amqp.Publishing{Body: []byte{byte(i)}})
	}
	s, err := b.Source(g)
	must(t, err)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	var cut sync.Once
	kept, again := map[string]byte{}, 0
	err = s.Letters(ctx, func(_ context.Context, some []bridge.Letter) error {
		cut.Do(func() { manage(t, at).cut("letters "+c.topic, 2) })
		for _, l := range some {
			if body, is := kept[l.Identity]; is && body == l.Record.Raw[0] {
				again++
			}
			kept[l.Identity] = l.Record.Raw[0]
		}
		if len(kept) == n && again > 0 {
			stop()
		}
		return nil
	})
	if err != nil || again == 0 {
		t.Errorf("%d letters came again, %v", again, err)
	}
	if bodies := slices.Sorted(maps.Values(kept)); len(slices.Compact(bodies)) != n {
		t.Errorf("%d letters have %d bodies", n, len(slices.Compact(bodies)))
	}
}

func TestALetterThatComesBackAgainAndAgainClimbsFromTheFirstStepEachTime(t *testing.T) {
	c := newClimber(t, serverForTest(t), time.Millisecond, time.Millisecond)
	b := closing(t, c.connection(t))
	g := c.declare(b)
	c.send(c.topic, "k", amqp.Publishing{Body: []byte("x"), MessageId: "m1"})
	seen := map[string]bool{}
	for round := range 10 {
		c.reject(3)
		l := bridgetest.Letters(t, b, g, 1)[0]
		if l.Attempts != 3 || l.From != (bridge.Place{Exchange: c.topic, RoutingKey: "k", Queue: c.queue()}) || round > 0 && l.ReturnID == "" || seen[l.Identity] {
			t.Fatalf("round %d: the letter is %+v", round, l)
		}
		seen[l.Identity] = true
		l.Record.Event, l.Record.DecodeErr = nil, nil
		s, err := b.Source(g)
		must(t, err)
		to := bridge.ToGroup
		if round%3 == 2 {
			to = bridge.ToOrigin
		}
		must(t, s.Return(t.Context(), bridge.Return{ID: settle.NewID(), To: to, Letter: l}))
	}
}
