package nats_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/bridge/bridgetest"
	"github.com/settlemq/settle/broker/nats"
)

// climber is a consumer that is not ours, of a group with a ladder, and another group
// of the same topic.
type climber struct {
	t      testing.TB
	at     string
	js     jetstream.JetStream
	ladder bridge.Ladder
}

func newClimber(t testing.TB, at string) *climber {
	t.Helper()
	c := &climber{t: t, at: at, js: (&rig{url: at}).js(t)}
	c.ladder = bridge.Ladder{Topic: "t" + settle.NewID(), Group: "stock"}
	b, err := nats.Open(t.Context(), at, nats.Config{Topics: []string{c.ladder.Topic}})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *climber) connection(t testing.TB) bridge.Broker {
	t.Helper()
	b, err := nats.Open(t.Context(), c.at, nats.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// declared returns a connection, and the group with its ladder.
func (c *climber) declared() (bridge.Broker, bridge.Group) {
	c.t.Helper()
	b := c.connection(c.t)
	c.t.Cleanup(func() { _ = b.Close() })
	g, err := b.Declare(c.t.Context(), c.ladder)
	if err != nil {
		c.t.Fatal(err)
	}
	return b, g
}

func (c *climber) stream() string   { return c.ladder.Topic }
func (c *climber) returned() string { return "settle-retry-" + c.stream() + "-stock" }
func (c *climber) captured() string { return "settle-dead-" + c.stream() + "-stock" }

func (c *climber) publish(key string, value []byte, headers map[string]string) uint64 {
	c.t.Helper()
	m := natsgo.NewMsg(c.ladder.Topic + "." + strconv.Itoa(settle.PartitionOf(key, 16)))
	m.Data = value
	for k, v := range headers {
		m.Header[k] = []string{v}
	}
	ack, err := c.js.PublishMsg(c.t.Context(), m)
	if err != nil {
		c.t.Fatal(err)
	}
	return ack.Sequence
}

// fetch takes the next message of a consumer on one of some streams.
func (c *climber) fetch(within time.Duration, consumer string, streams ...string) jetstream.Msg {
	c.t.Helper()
	for began := time.Now(); ; {
		for _, stream := range streams {
			at, err := c.js.Consumer(c.t.Context(), stream, consumer)
			if err != nil {
				c.t.Fatal(err)
			}
			some, err := at.FetchNoWait(1)
			if err != nil {
				c.t.Fatal(err)
			}
			for m := range some.Messages() {
				return m
			}
		}
		if time.Since(began) > within {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// giveUp is what a consumer does with a message that it will never understand.
func (c *climber) giveUp(reason string) {
	c.t.Helper()
	m := c.fetch(time.Minute, "stock", c.stream(), c.returned())
	if m == nil {
		c.t.Fatal("nothing comes to give up")
	}
	if err := m.TermWithReason(reason); err != nil {
		c.t.Fatal(err)
	}
}

// waiting waits until n advisories are captured.
func (c *climber) waiting(n uint64) {
	c.t.Helper()
	eventually(c.t, "advisories to be captured", func() bool { return c.left(c.captured()) == n })
}

func (c *climber) left(stream string) uint64 {
	c.t.Helper()
	s, err := c.js.Stream(c.t.Context(), stream)
	if err != nil {
		c.t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

func (c *climber) harness(t testing.TB) bridgetest.Harness {
	if _, err := c.js.CreateConsumer(t.Context(), c.stream(), jetstream.ConsumerConfig{Durable: "other", AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
		t.Fatal(err)
	}
	receive := func(consumer string, streams ...string) func(testing.TB) (settle.Record, bool) {
		return func(testing.TB) (settle.Record, bool) {
			m := c.fetch(time.Second, consumer, streams...)
			if m == nil {
				return settle.Record{}, false
			}
			if err := m.DoubleAck(t.Context()); err != nil {
				t.Fatal(err)
			}
			headers := map[string]string{}
			for k, v := range m.Headers() {
				headers[k] = v[0]
			}
			return settle.Record{Raw: m.Data(), Headers: headers, Key: headers[settle.HeaderAggregateID]}, true
		}
	}
	return bridgetest.Harness{
		Broker: c.connection(t), Again: func(t testing.TB) bridge.Broker { return c.connection(t) }, Ladder: c.ladder,
		Publish: func(_ testing.TB, key string, value []byte, headers map[string]string) {
			c.publish(key, value, headers)
		},
		GiveUp:  func(_ testing.TB, f bridgetest.Failure) { c.giveUp(f.Message) },
		Receive: receive("stock", c.stream(), c.returned()), ReceiveOther: receive("other", c.stream()),
		Missing: bridge.Group{Name: "stock", Dead: []string{"nowhere"}}, Patience: time.Minute,
		Without: []string{bridgetest.AbilityCause},
	}
}

func TestJetStreamBridgesDeadLetters(t *testing.T) {
	at := "nats://" + serveWith(t, server.Options{})
	bridgetest.Run(t, func(t testing.TB) bridgetest.Harness { return newClimber(t, at).harness(t) })
}

func TestNothingIsRemovedFromTheCaptureBeforeTheSinkHasIt(t *testing.T) {
	c := newClimber(t, "nats://"+serveWith(t, server.Options{}))
	b, g := c.declared()
	for _, body := range []string{"one", "two", "three"} {
		c.publish("k", []byte(body), nil)
		c.giveUp("it is odd")
	}
	c.waiting(3)
	s, err := b.Source(g)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var calls atomic.Int32
	err = s.Letters(ctx, func(_ context.Context, some []bridge.Letter) error {
		if n := c.left(c.captured()); n != 3 || len(some) != 3 {
			t.Errorf("%d advisories are left of %d letters that nobody has", n, len(some))
		}
		if l := some[0]; string(l.Record.Raw) != "one" || l.Message != "it is odd" || l.Attempts != 1 || l.From.RoutingKey != c.ladder.Topic+"."+strconv.Itoa(settle.PartitionOf("k", 16)) || l.From.Topic != c.ladder.Topic {
			t.Errorf("the first letter is %+v", l)
		}
		if calls.Add(1) < 3 {
			return errors.New("the store is away")
		}
		stop()
		return nil
	})
	if err != nil || calls.Load() != 3 {
		t.Errorf("%d calls, %v", calls.Load(), err)
	}
	if n := c.left(c.captured()); n != 0 {
		t.Errorf("%d advisories are left of what is kept", n)
	}
}

func TestWhatIsGoneFromItsStreamIsALetterThatSaysSoAndIsNeverAnotherMessage(t *testing.T) {
	c := newClimber(t, "nats://"+serveWith(t, server.Options{}))
	b, g := c.declared()
	die := func() uint64 {
		t.Helper()
		seq := c.publish("k", []byte("gone"), nil)
		c.giveUp("it is odd")
		return seq
	}
	saysGone := func(says string) bridge.Letter {
		t.Helper()
		l := bridgetest.Letters(t, b, g, 1)[0]
		if l.Record.DecodeErr == nil || !strings.Contains(l.Message, says) || !strings.Contains(l.Message, "it is odd") || len(l.Record.Raw) != 0 || len(l.To) != 0 || l.Attempts != 1 {
			t.Errorf("the letter is %+v, want it to say %q", l, says)
		}
		return l
	}
	seq := die()
	c.waiting(1)
	stream, err := c.js.Stream(t.Context(), c.stream())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), seq); err != nil {
		t.Fatal(err)
	}
	first := saysGone("it was deleted from stream")

	die()
	c.waiting(1)
	if err := c.js.DeleteStream(t.Context(), c.stream()); err != nil {
		t.Fatal(err)
	}
	saysGone("was deleted after the message had been given up")

	// A stream that is made anew counts anew: another message has the sequence.
	if err := newStreamAgain(t, c); err != nil {
		t.Fatal(err)
	}
	if g, err = b.Declare(t.Context(), c.ladder); err != nil {
		t.Fatal(err)
	}
	die()
	c.waiting(1)
	if err := c.js.DeleteStream(t.Context(), c.stream()); err != nil {
		t.Fatal(err)
	}
	if err := newStreamAgain(t, c); err != nil {
		t.Fatal(err)
	}
	c.publish("k", []byte("another"), nil)
	if l := saysGone("was made anew"); l.Identity == first.Identity {
		t.Errorf("two deaths are known as %s", l.Identity)
	}
}

// newStreamAgain makes the topic's stream.
func newStreamAgain(t testing.TB, c *climber) error {
	b, err := nats.Open(t.Context(), c.at, nats.Config{Topics: []string{c.ladder.Topic}})
	if err != nil {
		return err
	}
	return b.Close()
}

func TestAMessageOfAnySizeAndWithOddHeadersComesAndGoesAsItWas(t *testing.T) {
	c := newClimber(t, "nats://"+serveWith(t, server.Options{}))
	b, g := c.declared()
	value := make([]byte, 1<<20-400)
	for i := range value {
		value[i] = byte(i * 7)
	}
	c.publish("k", value, map[string]string{"X-Odd": "€ y", "lower": "", "Nats-Msg-Id": "m1", "x-raw": "a\xffb"})
	c.giveUp("")
	l := bridgetest.Letters(t, b, g, 1)[0]
	if string(l.Record.Raw) != string(value) || l.Record.Headers["X-Odd"] != "€ y" || l.Record.Headers["Nats-Msg-Id"] != "m1" || l.Record.Headers["x-raw"] != "a\uFFFDb" {
		t.Fatalf("the letter has %d bytes and the headers %q", len(l.Record.Raw), l.Record.Headers)
	}
	if err := bridgetest.SendBack(t, b, g, l, bridge.ToOrigin); err != nil {
		t.Fatal(err)
	}
	// The second try of one return is the first one's copy.
	if err := bridgetest.SendBack(t, b, g, l, bridge.ToOrigin); err != nil {
		t.Fatal(err)
	}
	m := c.fetch(time.Minute, "stock", c.stream())
	if m == nil || string(m.Data()) != string(value) {
		t.Fatal("it does not come back as it was")
	}
	h := m.Headers()
	if h.Get("X-Odd") != "€ y" || len(h["lower"]) != 1 || h.Get("x-raw") != "a\xffb" || h.Get("Nats-Msg-Id") != "r1" || h.Get(bridge.HeaderReturn) != "r1" {
		t.Errorf("the headers are %q", h)
	}
	if again := c.fetch(0, "stock", c.stream()); again != nil {
		t.Error("one return is stored twice")
	}
}

func TestAConsumerThatIsNotThereIsNamedAndWhatItGivesUpLaterIsCaptured(t *testing.T) {
	c := newClimber(t, "nats://"+serveWith(t, server.Options{}))
	b := c.connection(t)
	defer func() { _ = b.Close() }()
	g := bridge.Group{Name: "mail", Dead: []string{c.stream()}}
	s, err := b.Source(g)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Letters(t.Context(), func(context.Context, []bridge.Letter) error { return nil }); err == nil || !strings.Contains(err.Error(), `has no consumer "mail"`) {
		t.Fatalf("it says %v", err)
	}
	if _, err := c.js.CreateConsumer(t.Context(), c.stream(), jetstream.ConsumerConfig{Durable: "mail", AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
		t.Fatal(err)
	}
	c.publish("k", []byte("one"), nil)
	m := c.fetch(time.Minute, "mail", c.stream())
	if err := m.Term(); err != nil {
		t.Fatal(err)
	}
	l := bridgetest.Letters(t, b, g, 1)[0]
	if string(l.Record.Raw) != "one" || len(l.To) != 1 || l.To[0] != bridge.ToOrigin {
		t.Errorf("the letter is %+v", l)
	}
}

func TestACaptureThatIsAnotherStreamIsRefusedAndNamed(t *testing.T) {
	c := newClimber(t, "nats://"+serveWith(t, server.Options{}))
	b := c.connection(t)
	defer func() { _ = b.Close() }()
	refused := func(says string) {
		t.Helper()
		if _, err := b.Declare(t.Context(), c.ladder); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("it says %v, want %q", err, says)
		}
	}
	there := func(name string, keep time.Duration, subjects ...string) {
		t.Helper()
		if _, err := c.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: subjects, MaxAge: keep}); err != nil {
			t.Fatal(err)
		}
	}
	there("audit", 0, "$JS.EVENT.ADVISORY.>")
	refused("another stream takes $JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES." + c.stream() + ".stock")
	if err := c.js.DeleteStream(t.Context(), "audit"); err != nil {
		t.Fatal(err)
	}
	of := "." + c.stream() + ".stock"
	there(c.captured(), time.Hour, "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES"+of, "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED"+of)
	refused("does not keep advisories until they are read (storage File, retention Limits, max_age 1h0m0s)")
}

func TestWhatIsNoAdvisoryIsPassedOverAndADeathThatIsToldTwiceIsOne(t *testing.T) {
	c := newClimber(t, "nats://"+serveWith(t, server.Options{}))
	b, g := c.declared()
	subject := "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES." + c.stream() + ".stock"
	seq := c.publish("k", []byte("odd"), nil)
	c.giveUp("")
	c.waiting(1)
	again := `{"id":"again","timestamp":"` + time.Now().UTC().Format(time.RFC3339Nano) + `","stream":"` + c.stream() + `","consumer":"stock","deliveries":1,"stream_seq":`
	for _, said := range []string{"", "no JSON", "{}", strings.Replace(again, "stock", "mail", 1) + "1}", again + "0}", again + strconv.FormatUint(seq, 10) + "}"} {
		if err := c.js.Conn().Publish(subject, []byte(said)); err != nil {
			t.Fatal(err)
		}
	}
	c.waiting(7)
	l := bridgetest.Letters(t, b, g, 2)
	if l[0].Identity != l[1].Identity || string(l[1].Record.Raw) != "odd" {
		t.Errorf("one death is %q and %q", l[0].Identity, l[1].Identity)
	}
	if n := c.left(c.captured()); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}
