package rocketmq_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/bridge/bridgetest"
	"github.com/settlemq/settle/broker/rocketmq"
	"github.com/settlemq/settle/internal/services"
)

func TestJavaAndSettleExchangeEventsOnOneTopicAndAgreeOnTheQueueOfEachKey(t *testing.T) {
	at := serverForTest(t)
	onlyWhenAll(t)
	const n = 300
	r := newRig(t, at)
	b := closing(t, r.open(t, r.config()))
	producer := services.StartJava(t, "testdata", "Interop", "produce", r.names[0], r.topic, strconv.Itoa(n), t.TempDir())
	places := map[string]string{}
	for i := range n {
		at, _, _ := strings.Cut(producer.Line(patience), "\t")
		places[javaKey(i)] = at
	}
	var batch []settle.Message
	ours := map[string]settle.Message{}
	for i := range n {
		m := event(r.topic, javaKey(i), 1)
		m.Event.Payload = []byte(`{"名":"值"}`)
		batch = append(batch, m)
		ours[m.ID] = m
	}
	numbers := map[int]string{}
	for i, receipt := range published(t, b, batch) {
		key := batch[i].Event.AggregateID
		if before, is := numbers[receipt.At.Partition]; is && before != places[key] {
			t.Fatalf("key %s is in queue %d, where Java has put keys of %s and %s", key, receipt.At.Partition, before, places[key])
		}
		numbers[receipt.At.Partition] = places[key]
	}
	if len(numbers) != queues {
		t.Errorf("keys are in queues %v", numbers)
	}
	fromJava := 0
	for _, rec := range r.records(t) {
		if rec.DecodeErr != nil {
			t.Fatalf("record at %+v: %v", rec.At, rec.DecodeErr)
		}
		id, is := strings.CutPrefix(rec.Event.ID, "java-")
		if !is {
			continue
		}
		fromJava++
		i, err := strconv.Atoi(id)
		if err != nil || rec.Headers["traceparent"] != "trace-"+id || rec.Key != javaKey(i) || rec.Event.AggregateID != rec.Key || rec.Event.Type != "order.created" || !strings.Contains(string(rec.Event.Payload), `{"n":`+id+`,`) {
			t.Fatalf("Java's event came as %+v with headers %v", rec.Event, rec.Headers)
		}
	}
	if fromJava != n {
		t.Errorf("%d events of Java's came", fromJava)
	}
	javaReads(t, r, ours, n)
}

func javaKey(i int) string {
	if i%2 == 1 {
		return fmt.Sprint("订单-", i)
	}
	return fmt.Sprint("order-", i)
}

// records reads all queues as Settle's groups read them.
func (r *rig) records(t *testing.T) (all []settle.Record) {
	t.Helper()
	for _, rec := range readTap(t, r.tap(t), r.topic) {
		all = append(all, rec)
	}
	return all
}

// javaReads has a group of Java's read all of the topic.
func javaReads(t *testing.T, r *rig, ours map[string]settle.Message, n int) {
	t.Helper()
	consumer := services.StartJava(t, "testdata", "Interop", "consume", r.names[0], r.topic, "j"+r.topic, strconv.Itoa(2*n), t.TempDir())
	seen := map[string]bool{}
	for line := consumer.Line(patience); line != "done"; line = consumer.Line(patience) {
		f := strings.SplitN(line, "\t", 9)
		if len(f) < 9 || strings.HasPrefix(f[4], "java-") {
			continue
		}
		id, _, _ := strings.Cut(f[4], " ")
		m, known := ours[id]
		if !known {
			t.Fatalf("Java read %q", line)
		}
		seen[id] = true
		if f[5] != m.Event.Type || f[6] != m.Event.AggregateID || !strings.Contains(f[4], m.Event.AggregateID) || f[8] != string(settle.AppendEnvelope(nil, m.Event)) {
			t.Fatalf("Java read %q, published was %+v", line, m.Event)
		}
	}
	if len(seen) != n {
		t.Errorf("Java read %d events of ours", len(seen))
	}
}

func TestWhatAConsumerInJavaGivesUpIsBridgedAndComesBackToItsGroup(t *testing.T) {
	at := serverForTest(t)
	onlyWhenAll(t)
	c := newClimber(t, at)
	b := c.connection(t)
	defer func() { _ = b.Close() }()
	c.ladder.Steps = c.ladder.Steps[:0]
	g, err := b.Declare(t.Context(), c.ladder)
	if err != nil {
		t.Fatal(err)
	}
	m := event(c.topic, "o-1", 1)
	published(t, closing(t, c.open(t, c.config())), []settle.Message{m})
	consumer := services.StartJava(t, "testdata", "Interop", "fail", c.names[0], c.topic, c.ladder.Group, "1", t.TempDir())
	for attempt := range 2 { // one step of a second, which this consumer asks for
		if f := strings.SplitN(consumer.Line(patience), "\t", 9); f[0] != c.topic || f[3] != strconv.Itoa(attempt) {
			t.Fatalf("Java's attempt %d is %q", attempt+1, f)
		}
	}
	l := bridgetest.Letters(t, b, g, 1)[0]
	if l.Record.Event == nil || l.Record.Event.ID != m.ID || l.From.Topic != c.topic || l.Attempts != 2 || l.Record.Key != "o-1" {
		t.Fatalf("the letter is %+v", l)
	}
	if err := bridgetest.SendBack(t, b, g, l, bridge.ToGroup); err != nil {
		t.Fatal(err)
	}
	if f := strings.SplitN(consumer.Line(patience), "\t", 9); f[0] != c.topic || f[7] != "r1" || f[6] != "o-1" || f[8] != string(settle.AppendEnvelope(nil, m.Event)) {
		t.Errorf("what came back to Java is %q", f)
	}
}

// tap reads without anything that Subscribe promises.
func (r *rig) tap(t *testing.T) *rocketmq.Tap {
	t.Helper()
	tap, err := rocketmq.OpenTap(r.at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tap.Close() })
	return tap
}
