package kafka_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/bridge/bridgetest"
	"github.com/settlemq/settle/broker/kafka"
)

func (c *climber) makeTopic(name string, partitions int32, settings map[string]*string) {
	c.t.Helper()
	answer, err := c.admin.CreateTopic(c.t.Context(), partitions, -1, settings, name)
	must(c.t, errors.Join(err, answer.Err))
	c.t.Cleanup(func() { _, _ = c.admin.DeleteTopics(context.Background(), name) })
}

func TestTheTopicsOfALadderHaveThePartitionsOfTheirsAndOnesThatWillNotDoAreRefused(t *testing.T) {
	c := newClimber(t, newFake(t).url())
	b := c.open(t, kafka.Config{Timeout: time.Second})
	defer b.Close()
	c.ladder.Steps = []time.Duration{time.Second, time.Minute, time.Minute}
	g := c.declare(b)
	want := c.topic + "-" + c.ladder.Group
	if g.Name != c.ladder.Group || g.Retry != want+"-retry-1000" || len(g.Dead) != 1 || g.Dead[0] != want+"-dlt" {
		t.Fatalf("the group is %+v", g)
	}
	for _, name := range []string{g.Retry, want + "-retry-60000", g.Dead[0]} {
		topics, err := c.admin.ListTopics(t.Context(), name)
		must(t, errors.Join(err, topics[name].Err))
		if n := len(topics[name].Partitions); n != 3 {
			t.Errorf("topic %q has %d partitions, want 3", name, n)
		}
	}
	for says, there := range map[string]struct {
		partitions int32
		settings   map[string]*string
	}{
		"has 2 partitions":           {2, nil},
		"keeps only the last record": {3, map[string]*string{"cleanup.policy": new("compact")}},
		"deletes records after 1s":   {3, map[string]*string{"retention.ms": new("1000")}},
		"":                           {4, map[string]*string{"retention.ms": new("-1")}},
	} {
		l := c.ladder
		l.Group = "other" + settle.NewID()[24:]
		l.Steps = []time.Duration{2 * time.Second}
		c.makeTopic(l.Topic+"-"+l.Group+"-retry-2000", there.partitions, there.settings)
		if _, err := b.Declare(t.Context(), l); says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("got %v, want %q in it", err, says)
		}
	}
	for name, l := range map[string]bridge.Ladder{
		"no topic": {Group: "g"}, "a queue": {Topic: c.topic, Group: "g", Queue: "q"}, "a name that is too long": {Topic: c.topic, Group: strings.Repeat("g", 240)},
		"a step of no time": {Topic: c.topic, Group: "g", Steps: []time.Duration{0}}, "many steps": {Topic: c.topic, Group: "g", Steps: make([]time.Duration, 17)},
		"a topic that is not there": {Topic: "nowhere-" + c.topic, Group: "g"},
	} {
		if g, err := b.Declare(t.Context(), l); err == nil {
			t.Errorf("%s: %+v", name, g)
		}
	}
}

func TestNothingIsCommittedBeforeTheSinkHasItAlsoWhenPartitionsMove(t *testing.T) {
	c := newClimber(t, newFake(t).url())
	first := c.open(t, kafka.Config{SessionTimeout: time.Second, DrainTimeout: 100 * time.Millisecond})
	defer first.Close()
	g := c.declare(first)
	const n = 30
	for i := range n {
		c.produce(&kgo.Record{Topic: c.dead(), Key: []byte{byte(i)}, Value: []byte{byte(i)}})
	}
	committed := func() (sum int64) {
		offsets, err := c.admin.FetchOffsets(t.Context(), "settle-bridge."+c.ladder.Group)
		must(t, err)
		for _, p := range offsets.Offsets().Sorted() {
			sum += max(p.At, 0)
		}
		return sum
	}
	s, err := first.Source(g)
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var refusals atomic.Int32
	refused, often, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- s.Letters(ctx, func(context.Context, []bridge.Letter) error {
			switch refusals.Add(1) {
			case 2:
				close(refused)
			case 6:
				close(often)
			}
			return errors.New("the store is away")
		})
	}()
	<-refused
	if done := committed(); done != 0 {
		t.Errorf("%d letters are committed that nobody has", done)
	}
	// Another member takes over partitions of one whose sink is broken.
	second := c.open(t, kafka.Config{SessionTimeout: time.Second, DrainTimeout: 100 * time.Millisecond})
	defer second.Close()
	go func() {
		defer stop()
		select {
		case <-often:
		case <-ctx.Done():
		}
	}()
	kept := map[string]byte{}
	reading, enough := context.WithTimeout(t.Context(), patience)
	defer enough()
	other, err := second.Source(g)
	must(t, err)
	err = other.Letters(reading, func(_ context.Context, some []bridge.Letter) error {
		for _, l := range some {
			kept[l.Identity] = l.Record.Raw[0]
		}
		if len(kept) == n {
			enough()
		}
		return nil
	})
	if err != nil || len(kept) != n {
		t.Errorf("%d letters of %d are kept, %v", len(kept), n, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if done := committed(); done != n {
		t.Errorf("%d letters of %d are committed", done, n)
	}
}

func TestATopicOfDeadLettersThatIsMadeAnewHasOtherLetters(t *testing.T) {
	c := newClimber(t, serverForTest(t))
	b := c.connection(t)
	defer b.Close()
	g := c.declare(b)
	s, err := b.Source(g)
	must(t, err)
	ctx, stop := context.WithTimeout(t.Context(), 2*patience)
	defer stop()
	found, ended := make(chan bridge.Letter, 10), make(chan error, 1)
	read := func() {
		ended <- s.Letters(ctx, func(_ context.Context, some []bridge.Letter) error {
			for _, l := range some {
				found <- l
			}
			return nil
		})
	}
	go read()
	next := func() bridge.Letter {
		for {
			select {
			case l := <-found:
				return l
			case err := <-ended: // it was gone for a moment
				if err == nil || !strings.Contains(err.Error(), c.dead()) {
					t.Fatalf("reading ended: %v", err)
				}
				time.Sleep(100 * time.Millisecond)
				go read()
			case <-ctx.Done():
				t.Fatal("no letter comes")
			}
		}
	}
	c.produce(&kgo.Record{Topic: c.dead(), Value: []byte("old")})
	old := next()
	_, err = c.admin.DeleteTopics(t.Context(), c.dead())
	must(t, err)
	for { // nodes learn late that a topic is gone, and that there is one
		_, err := b.Declare(ctx, c.ladder)
		if err == nil && c.produceAnew(ctx, &kgo.Record{Topic: c.dead(), Value: []byte("new")}) {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("nothing can be written to the new topic: %v", err)
		}
	}
	anew := next()
	if string(anew.Record.Raw) != "new" || anew.Identity == old.Identity || anew.At.Offset != 0 {
		t.Errorf("the letters are %+v and %+v", old.At, anew.At)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// produceAnew writes with a client that knows no topic of old.
func (c *climber) produceAnew(ctx context.Context, r *kgo.Record) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.raw.OptValue(kgo.SeedBrokers).([]string)...), kgo.AllowIdempotentProduceCancellation())
	must(c.t, err)
	defer cl.Close()
	return cl.ProduceSync(ctx, r).FirstErr() == nil
}

func TestAReturnToATopicThatIsNotThereMayBeTriedLaterAndOneThatIsTooLargeMayNot(t *testing.T) {
	c := newClimber(t, newFake(t).url())
	b := c.connection(t)
	defer b.Close()
	g := c.declare(b)
	c.produce(&kgo.Record{Topic: c.dead(), Value: []byte("v"), Headers: []kgo.RecordHeader{{Key: "kafka_dlt-original-topic", Value: []byte("nowhere-" + c.topic)}}})
	l := bridgetest.Letters(t, b, g, 1)[0]
	if err := bridgetest.SendBack(t, b, g, l, bridge.ToOrigin); settle.ScopeOf(err) != settle.ScopeTopic {
		t.Errorf("to a topic that is not there: %v", err)
	}
	l.Record.Raw = make([]byte, 3<<20)
	if err := bridgetest.SendBack(t, b, g, l, bridge.ToGroup); settle.ScopeOf(err) != settle.ScopeRecord || !settle.IsPermanent(err) {
		t.Errorf("with 3 MiB: %v", err)
	}
	l.Wrapping = nil
	if err := bridgetest.SendBack(t, b, g, l, bridge.ToGroup); settle.ScopeOf(err) != settle.ScopeRecord || !settle.IsPermanent(err) {
		t.Errorf("without a wrapping: %v", err)
	}
}
