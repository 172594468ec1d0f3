package nats_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/nats"
	"github.com/settlemq/settle/broker/nats/embedded"
)

func TestAnExistingStreamThatDiffersIsRefusedByNameOfTheSetting(t *testing.T) {
	r := newRig(t)
	js := r.js(t)
	topic := ""
	subjects := func(n int) []string {
		s := make([]string, n)
		for i := range s {
			s[i] = fmt.Sprint(topic, ".", i)
		}
		return s
	}
	for says, change := range map[string]func(c *jetstream.StreamConfig){
		"metadata":     func(c *jetstream.StreamConfig) { c.Metadata = nil },
		"8 partitions": func(c *jetstream.StreamConfig) { c.Metadata["settle-partitions"] = "8"; c.Subjects = subjects(8) },
		"subjects":     func(c *jetstream.StreamConfig) { c.Subjects = []string{topic + ".*"} },
		"memory":       func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage },
		"persist mode": func(c *jetstream.StreamConfig) {
			c.AllowAtomicPublish, c.PersistMode = false, jetstream.AsyncPersistMode
		},
		"retention":       func(c *jetstream.StreamConfig) { c.Retention = jetstream.InterestPolicy },
		"discards old":    func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld },
		"number of":       func(c *jetstream.StreamConfig) { c.MaxMsgs = 5 },
		"atomic":          func(c *jetstream.StreamConfig) { c.AllowAtomicPublish = false },
		"at most 1 bytes": func(c *jetstream.StreamConfig) { c.MaxBytes = 1 },
		"for 1h0m0s":      func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
	} {
		topic = "differs-" + strings.ReplaceAll(says, " ", "-")
		cfg := jetstream.StreamConfig{
			Name: nats.StreamName(topic), Subjects: subjects(16), Discard: jetstream.DiscardNew, MaxBytes: 8 << 30, MaxAge: 7 * 24 * time.Hour,
			AllowAtomicPublish: true, Metadata: map[string]string{"settle-partitions": "16"},
		}
		change(&cfg)
		if _, err := js.CreateStream(t.Context(), cfg); err != nil {
			t.Fatalf("%s: %v", says, err)
		}
		b, err := nats.Open(t.Context(), r.url, nats.Config{Topics: []string{topic}})
		if err == nil {
			_ = b.Close()
		}
		if err == nil || !strings.Contains(err.Error(), says) || settle.ScopeOf(err) != settle.ScopeTopic {
			t.Errorf("want an error that says %q, got %v", says, err)
		}
	}
}

func TestADeclaredTopicIsTheSameForEverybody(t *testing.T) {
	r := newRig(t)
	for range 3 {
		if err := open(t, r.url).Close(); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := r.js(t).Stream(t.Context(), topicName)
	if err != nil {
		t.Fatal(err)
	}
	c := stream.CachedInfo().Config
	if c.Storage != jetstream.FileStorage || c.Discard != jetstream.DiscardNew || c.Retention != jetstream.LimitsPolicy ||
		c.PersistMode != jetstream.DefaultPersistMode || !c.AllowAtomicPublish || c.Duplicates != 2*time.Minute || len(c.Subjects) != 16 || c.MaxConsumers < 1000 {
		t.Errorf("the stream is %+v", c)
	}
}

func TestStreamNamesAreOneToOneAndAllowed(t *testing.T) {
	seen := map[string]string{}
	long := strings.Repeat("é", 90)
	for _, topic := range []string{"order-domain-event", "a.b", "a=2Eb", "a_b", "Ä", "a/b", "a\\b", long, long + "x", "a b"} {
		name := nats.StreamName(topic)
		if other, ok := seen[name]; ok {
			t.Errorf("%q and %q are both %q", topic, other, name)
		}
		seen[name] = topic
		if len(name) > 255 || strings.ContainsAny(name, ". */\\>\t") {
			t.Errorf("%q becomes %q", topic, name)
		}
	}
	if nats.StreamName("order-domain-event") != "order-domain-event" {
		t.Error("an ordinary topic is not its stream's name")
	}
}

func TestATopicOfAnyNameThatASubjectCanHaveWorks(t *testing.T) {
	r := newRig(t)
	b, err := nats.Open(t.Context(), r.url, nats.Config{Declare: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for topic, good := range map[string]bool{
		"shop.orders": true, "Äpfel": true, "a=b": true,
		"a b": false, "a.*": false, "x.>": false, ".a": false, "a..b": false, "a.": false, "$JS.API": false, "_INBOX.x": false,
	} {
		m := message("e-"+topic, "k")
		m.Event.Topic = topic
		got := b.Publish(t.Context(), []settle.Message{m})[0]
		if good != (got.Err == nil) || !good && (settle.ScopeOf(got.Err) != settle.ScopeRecord || !settle.IsPermanent(got.Err) || !strings.Contains(got.Err.Error(), strconv.Quote(topic))) {
			t.Errorf("topic %q: %+v", topic, got)
		}
	}
}

func TestOpenWaitsForAServerThatIsNotThereYetAndNotForAWrongToken(t *testing.T) {
	r := newRig(t)
	r.kill()
	opened, at := make(chan error, 1), r.url
	go func() {
		b, err := nats.Open(context.Background(), at, config())
		if err == nil {
			err = b.Close()
		}
		opened <- err
	}()
	_, port, _ := strings.Cut(r.url, "127.0.0.1:")
	r.start(t, port)
	if err := <-opened; err != nil {
		t.Error(err)
	}
	began := time.Now()
	if _, err := nats.Open(t.Context(), strings.Replace(r.url, "secret", "wrong", 1), config()); err == nil {
		t.Error("a wrong token opens the broker")
	} else if time.Since(began) > 5*time.Second {
		t.Errorf("a wrong token is refused after %v: %v", time.Since(began), err)
	}
	short := config()
	short.ConnectTimeout = 200 * time.Millisecond
	if _, err := nats.Open(t.Context(), "nats://127.0.0.1:1", short); err == nil {
		t.Error("a broker without a server opens")
	}
}

func TestAServerInProcessNeedsNoPort(t *testing.T) {
	s, err := embedded.Start(embedded.Config{Dir: t.TempDir(), InProcessOnly: true, Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cfg := config()
	cfg.InProcess = s.InProcess()
	b, err := nats.Open(t.Context(), "nats://secret@in-process:1", cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if got := b.Publish(t.Context(), []settle.Message{message("e", "k")})[0]; got.Err != nil {
		t.Error(got.Err)
	}
}

func message(id, key string) settle.Message {
	return settle.Message{ID: id, Event: &settle.Event{
		ID: id, Type: "t", AggregateID: key, Topic: topicName, AppendedAt: time.Now(), Payload: []byte(`{}`),
	}}
}
