package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/kafka"
)

// A broker judges a batch by its size, so the neighbours of a record that is too
// large for its topic are refused with it.
func TestARecordThatItsTopicFindsTooLargeFailsAloneAndKeysKeepTheirOrder(t *testing.T) {
	r := newRig(t, serverForTest(t))
	r.make(t, 2, map[string]*string{"max.message.bytes": new("20000")})
	b := r.open(t, kafka.Config{})
	defer b.Close()
	var batch []settle.Message
	seq := map[string]int64{}
	add := func(key string, bytes int) {
		seq[key]++
		batch = append(batch, r.messageOf(key, seq[key], bytes))
	}
	for i := range 400 {
		add(fmt.Sprintf("k%d", i%4), 3000)
		if i == 200 {
			add("k1", 30_000)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	behind := false
	for i, receipt := range b.Publish(ctx, batch) {
		e := batch[i].Event
		switch {
		case len(e.Payload) > 20_000:
			behind = true
			if settle.ScopeOf(receipt.Err) != settle.ScopeRecord || !settle.IsPermanent(receipt.Err) {
				t.Errorf("the large one: got %v, want a record error for good", receipt.Err)
			}
		case behind && e.AggregateID == "k1":
			if receipt.Err == nil || settle.IsPermanent(receipt.Err) {
				t.Errorf("one behind the large one: got %v, want an error that is not for good", receipt.Err)
			}
		case receipt.Err != nil:
			t.Fatalf("neighbour %d of the large one: %v", i, receipt.Err)
		}
	}
	r.checkOrder(t)
}

// checkOrder reads the log: first copies of a key rise by one.
func (r *rig) checkOrder(t testing.TB) int {
	t.Helper()
	last, seen := map[string]int64{}, map[string]bool{}
	for _, rec := range r.log(t) {
		if rec.Event == nil || seen[rec.Event.ID] {
			continue
		}
		seen[rec.Event.ID] = true
		if e := rec.Event; e.AggregateSeq != last[e.AggregateID]+1 {
			t.Fatalf("event %d of %s stands behind event %d", e.AggregateSeq, e.AggregateID, last[e.AggregateID])
		}
		last[rec.Event.AggregateID]++
	}
	return len(seen)
}

// make makes the rig's topic as somebody else would have.
func (r *rig) make(t testing.TB, partitions int32, settings map[string]*string) {
	t.Helper()
	answer, err := r.admin.CreateTopic(t.Context(), partitions, -1, settings, r.topic)
	if err = errors.Join(err, answer.Err); err != nil {
		t.Fatal(err)
	}
}

func TestARecordWhoseTimeItsTopicRefusesIsTheRecordsFault(t *testing.T) {
	r := newRig(t, serverForTest(t))
	r.make(t, 1, map[string]*string{"message.timestamp.before.max.ms": new("0"), "message.timestamp.after.max.ms": new("0")})
	b := r.open(t, kafka.Config{})
	defer b.Close()
	// What arrives within its millisecond is taken.
	var receipt settle.Receipt
	for i := int64(1); i < 1000 && receipt.Err == nil; i++ {
		receipt = publishOne(t, b, r.messageOf("k", i, 0))
	}
	if receipt.Err == nil || settle.ScopeOf(receipt.Err) != settle.ScopeRecord {
		t.Errorf("got %v, want a record error", receipt.Err)
	}
}

func publishOne(t testing.TB, b settle.Publisher, m settle.Message) settle.Receipt {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return b.Publish(ctx, []settle.Message{m})[0]
}

func TestATopicThatExistsNeedsNoRightToMakeTopics(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.EnableACLs(), kfake.EnableSASL(), kfake.Superuser("PLAIN", "root", "canary-root"),
		kfake.User("PLAIN", "writer", "canary-writer"), kfake.SeedTopics(2, "open", "closed"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	at := cluster.ListenAddrs()[0]
	root := openForTest(t, "kafka://root:canary-root@"+at+"?sasl=plain", kafka.Config{})
	root.Close()
	grant(t, at, "open")
	b := openForTest(t, "kafka://writer:canary-writer@"+at+"?sasl=plain", kafka.Config{Declare: true})
	defer b.Close()
	r := rig{topic: "open"}
	batch := []settle.Message{r.messageOf("a", 1, 0), r.messageOf("b", 1, 0), r.messageOf("c", 1, 0)}
	batch[1].Event.Topic, batch[2].Event.Topic = "closed", "absent"
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	receipts := b.Publish(ctx, batch)
	if receipts[0].Err != nil {
		t.Errorf("the topic that may be written to: %v", receipts[0].Err)
	}
	for i, name := range []string{1: "closed", 2: "absent"} {
		if i > 0 && settle.ScopeOf(receipts[i].Err) != settle.ScopeTopic {
			t.Errorf("topic %s: got %v, want a topic error", name, receipts[i].Err)
		}
	}
}

// grant lets the user writer write to a topic.
func grant(t testing.TB, at, topic string) {
	t.Helper()
	admin := rootOf(t, at)
	acls := kadm.NewACLs().Topics(topic).ResourcePatternType(kadm.ACLPatternLiteral).Operations(kadm.OpWrite, kadm.OpDescribe).Allow("User:writer").AllowHosts()
	results, err := admin.CreateACLs(t.Context(), acls)
	if err != nil {
		t.Fatal(err)
	}
	for _, result := range results {
		if result.Err != nil {
			t.Fatal(result.Err)
		}
	}
}

func openForTest(t testing.TB, at string, cfg kafka.Config) *kafka.Broker {
	t.Helper()
	cfg.ConnectTimeout = patience
	b, err := kafka.Open(t.Context(), at, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAClusterThatIsAwayIsToldOnceAndCloseEndsWhatWaitsForIt(t *testing.T) {
	f := newFake(t)
	r := newRig(t, f.url())
	var j journal
	cfg := r.config()
	cfg.Log, cfg.Timeout = j.logger(), 200*time.Millisecond
	b := r.open(t, cfg)
	s := newSink()
	leave := r.join(t, b, "g", s)
	if receipt := publishOne(t, b, r.messageOf("k", 1, 0)); receipt.Err != nil {
		t.Fatal(receipt.Err)
	}
	s.await(t, 1)
	f.stop(t)
	j.await(t, "can't be reached")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if r := b.Publish(ctx, []settle.Message{r.messageOf("k", 2, 0)})[0]; settle.ScopeOf(r.Err) != settle.ScopeBroker || r.Err == nil {
		t.Errorf("got %v, want a broker error", r.Err)
	}
	f.start()
	j.await(t, "is reached again")
	if receipt := publishOne(t, b, r.messageOf("k", 3, 0)); receipt.Err != nil {
		t.Fatal(receipt.Err)
	}
	s.await(t, 2)
	for _, what := range []string{"can't be reached", "is reached again"} {
		if lines := j.lines(what); len(lines) > 1 {
			t.Errorf("it is told %d times:\n%s", len(lines), strings.Join(lines, ""))
		}
	}
	leave()
	f.stop(t)
	waiting := make(chan settle.Receipt, 1)
	go func() { waiting <- b.Publish(context.Background(), []settle.Message{r.messageOf("k", 4, 0)})[0] }()
	await(t, "the publish to wait", func() bool { return b.Close() == nil })
	if receipt := <-waiting; receipt.Err == nil {
		t.Error("what no broker took was acknowledged")
	}
	f.start()
}

// rootOf administers a fake with passwords.
func rootOf(t testing.TB, at string) *kadm.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(at), kgo.SASL(plainRoot.AsMechanism()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return kadm.NewClient(cl)
}

var plainRoot = plain.Auth{User: "root", Pass: "canary-root"}
