package kafka_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/brokertest"
	"github.com/settlemq/settle/broker/kafka"
)

// leading publishes as the relay of an outbox that holds its lease: fenced, it
// has loaded its state anew.
type leading struct {
	*kafka.Broker
	outbox string
	epoch  int64

	mu     sync.Mutex
	load   int64
	fenced int
}

func (l *leading) Publish(ctx context.Context, batch []settle.Message) []settle.Receipt {
	for {
		l.mu.Lock()
		lead := settle.Lead{Outbox: l.outbox, Load: l.load}
		l.mu.Unlock()
		led := make([]settle.Message, len(batch))
		for i, m := range batch {
			m.Epoch, m.Lead = l.epoch, lead
			led[i] = m
		}
		receipts := l.Broker.Publish(ctx, led)
		if len(receipts) == 0 || !isFenced(receipts) || ctx.Err() != nil {
			return receipts
		}
		l.mu.Lock()
		l.load = max(l.load, lead.Load+1)
		l.fenced++
		l.mu.Unlock()
	}
}

func isFenced(receipts []settle.Receipt) bool {
	for _, r := range receipts {
		if errors.Is(r.Err, settle.ErrFenced) {
			return true
		}
	}
	return false
}

func TestKafkaKeepsTheContractWhenItFences(t *testing.T) {
	skipUnlessAll(t)
	at := serverForTest(t)
	brokertest.Run(t, func(t testing.TB) brokertest.Harness { return fencing(t, newRig(t, at)) })
}

func TestAFakeOfKafkaKeepsTheContractWhenItFencesThroughKills(t *testing.T) {
	skipUnlessAll(t)
	brokertest.Run(t, func(t testing.TB) brokertest.Harness {
		f := newFake(t)
		h := fencing(t, newRig(t, f.url()))
		h.Restart, h.Without = f.restart, nil
		return h
	})
}

func skipUnlessAll(t *testing.T) {
	t.Helper()
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("runs with SETTLE_TEST_ALL=1: it is the contract once more")
	}
}

// fencing makes every connection of a harness publish as a relay of its own.
func fencing(t testing.TB, r *rig) brokertest.Harness {
	r.at += "?fence=true"
	h := r.harness(t)
	h.Without = []string{brokertest.AbilityRestart}
	led := func(b settle.Broker) settle.Broker {
		return &leading{Broker: b.(*kafka.Broker), outbox: settle.NewID(), epoch: 1}
	}
	again, lossy := h.Again, h.Lossy
	h.Broker = led(h.Broker)
	h.Again = func(t testing.TB) settle.Broker { return led(again(t)) }
	h.Lossy = func(t testing.TB) (settle.Broker, func() int) {
		b, lost := lossy(t)
		return led(b), lost
	}
	return h
}

func (r *rig) lead(t testing.TB, cfg kafka.Config, outbox string, epoch int64) *leading {
	cfg.Fence = true
	return &leading{Broker: r.open(t, cfg), outbox: outbox, epoch: epoch}
}

func publishAll(t testing.TB, b settle.Publisher, batch []settle.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i, receipt := range b.Publish(ctx, batch) {
		if receipt.Err != nil {
			t.Fatalf("message %d: %v", i, receipt.Err)
		}
	}
}

// copies counts what consumers see who read what is committed.
func (r *rig) copies(t testing.TB) map[string]int {
	t.Helper()
	n := map[string]int{}
	for _, rec := range r.log(t) {
		n[rec.Event.ID]++
	}
	return n
}

func TestARelayThatWasReplacedPublishesNothingThatAnybodySees(t *testing.T) {
	r := newRig(t, serverForTest(t))
	old := r.lead(t, r.config(), r.topic, 1)
	defer old.Close()
	next := r.lead(t, r.config(), r.topic, 2)
	defer next.Close()
	first, second, third := r.messageOf("k", 1, 0), r.messageOf("k", 2, 0), r.messageOf("k", 3, 0)
	publishAll(t, old, []settle.Message{first})
	publishAll(t, next, []settle.Message{second})
	// It wakes up with what it had decided to publish, and does not ask the store.
	awake := third
	awake.Epoch, awake.Lead = old.epoch, settle.Lead{Outbox: r.topic, Load: old.load}
	for range 2 {
		if got := old.Broker.Publish(t.Context(), []settle.Message{awake})[0]; !errors.Is(got.Err, settle.ErrFenced) {
			t.Errorf("the one that was replaced: %+v, want %v", got, settle.ErrFenced)
		}
	}
	publishAll(t, next, []settle.Message{third}) // nobody has put it out meanwhile
	if next.fenced != 1 {
		t.Errorf("the one that leads was fenced %d times, want once, when it began", next.fenced)
	}
	if got := r.copies(t); len(got) != 3 || got[first.ID] != 1 || got[second.ID] != 1 || got[third.ID] != 1 {
		t.Errorf("consumers see %v", got)
	}
}

// A relay that slept between its lease and its first publish begins after the
// one that has replaced it: it puts that one out, publishes nothing, and the
// one that leads goes on.
func TestARelayThatBeginsTooLatePublishesNothingAndWhoLeadsGoesOn(t *testing.T) {
	r := newRig(t, serverForTest(t))
	late := r.lead(t, r.config(), r.topic, 1)
	defer late.Close()
	next := r.lead(t, r.config(), r.topic, 2)
	defer next.Close()
	publishAll(t, next, []settle.Message{r.messageOf("k", 1, 0)})
	awake := r.messageOf("k", 2, 0)
	awake.Epoch, awake.Lead = late.epoch, settle.Lead{Outbox: r.topic, Load: 1}
	for range 3 { // also those of its calls that come after it began
		if got := late.Broker.Publish(t.Context(), []settle.Message{awake})[0]; !errors.Is(got.Err, settle.ErrFenced) {
			t.Errorf("the late one: %+v, want %v", got, settle.ErrFenced)
		}
	}
	publishAll(t, next, []settle.Message{r.messageOf("k", 2, 0)})
	if next.fenced != 3 {
		t.Errorf("the one that leads was fenced %d times, want once when it began, once when it was put out and once when it began again", next.fenced)
	}
	if n := r.checkOrder(t); n != 2 {
		t.Errorf("consumers see %d events, want 2", n)
	}
}

func TestWhatIsRefusedIsTakenBackAndTheRestOfItsBatchIsSeenOnce(t *testing.T) {
	r := newRig(t, serverForTest(t))
	r.make(t, 2, map[string]*string{"max.message.bytes": new("20000")})
	b := r.lead(t, kafka.Config{}, r.topic, 1)
	defer b.Close()
	var batch []settle.Message
	for i := range 60 {
		batch = append(batch, r.messageOf([]string{"a", "b", "c", "large", "absent"}[i%5], int64(i/5+1), 100))
		if i == 3 {
			batch[i] = r.messageOf("large", 1, 30_000)
		}
		if i%5 == 4 {
			batch[i].Event.Topic = "absent-" + r.topic
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i, got := range b.Publish(ctx, batch) {
		switch key := batch[i].Event.AggregateID; {
		case i == 3:
			if settle.ScopeOf(got.Err) != settle.ScopeRecord || !settle.IsPermanent(got.Err) {
				t.Errorf("the large one: %v", got.Err)
			}
		case i == 4:
			if got.Err == nil || settle.ScopeOf(got.Err) != settle.ScopeTopic {
				t.Errorf("one of a topic that is not there: %v", got.Err)
			}
		case key == "large" || key == "absent":
			if got.Err == nil || settle.IsPermanent(got.Err) {
				t.Errorf("message %d, behind one of its key: %v", i, got.Err)
			}
		case got.Err != nil:
			t.Errorf("message %d: %v", i, got.Err)
		}
	}
	seen := r.copies(t)
	for id, n := range seen {
		if n != 1 {
			t.Errorf("event %s is seen %d times", id, n)
		}
	}
	if len(seen) != 36 || r.checkOrder(t) != 36 {
		t.Errorf("%d events are seen, want 36", len(seen))
	}
	if b.fenced != 1 {
		t.Errorf("refusals made it begin anew: %d times", b.fenced)
	}
}

func TestWhatWasPublishedAndNotCommittedWhenTheProcessDiedIsSeenOnce(t *testing.T) {
	r := newRig(t, serverForTest(t))
	dies := r.lead(t, r.config(), r.topic, 1)
	defer dies.Close()
	batch := []settle.Message{r.messageOf("k", 1, 0), r.messageOf("k", 2, 0)}
	publishAll(t, dies, batch[:1])
	kafka.LeaveOpen(t.Context(), t, dies.Broker, r.topic, batch[1:])
	next := r.lead(t, r.config(), r.topic, 2)
	defer next.Close()
	began := time.Now()
	publishAll(t, next, batch[1:])
	if n := r.checkOrder(t); n != 2 {
		t.Errorf("consumers see %d events, want 2", n)
	}
	for id, n := range r.copies(t) {
		if n != 1 {
			t.Errorf("event %s is seen %d times", id, n)
		}
	}
	t.Logf("the next one took over in %s", time.Since(began).Round(time.Millisecond))
}

func TestMessagesThatNoRelayLeadsAreNotFenced(t *testing.T) {
	r := newRig(t, serverForTest(t))
	cfg := r.config()
	cfg.Fence = true
	b := r.open(t, cfg)
	defer b.Close()
	if got := publishOne(t, b, r.messageOf("k", 1, 0)); got.Err != nil {
		t.Fatal(got.Err)
	}
	nameless := r.messageOf("k", 2, 0)
	nameless.Epoch, nameless.Lead.Load = 1, 1
	if got := publishOne(t, b, nameless); got.Err == nil || !strings.Contains(got.Err.Error(), "has no name") {
		t.Errorf("a relay without a name: %v", got.Err)
	}
}

func TestAUserWithoutTheRightToFenceIsToldWhatGivesIt(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableACLs(), kfake.EnableSASL(), kfake.Superuser("PLAIN", "root", "canary-root"),
		kfake.User("PLAIN", "writer", "canary-writer"), kfake.SeedTopics(2, "open"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	at := cluster.ListenAddrs()[0]
	grant(t, at, "open")
	b := openForTest(t, "kafka://writer:canary-writer@"+at+"?sasl=plain&fence=true", kafka.Config{})
	defer b.Close()
	r := rig{topic: "open"}
	m := r.messageOf("k", 1, 0)
	m.Epoch, m.Lead = 1, settle.Lead{Outbox: "orders", Load: 1}
	got := publishOne(t, b, m)
	if got.Err == nil || settle.ScopeOf(got.Err) != settle.ScopeBroker || !strings.Contains(got.Err.Error(), "settle.orders.0; kafka-acls.sh --add --producer") {
		t.Errorf("got %v, want a broker error that says what gives the right", got.Err)
	}
}
