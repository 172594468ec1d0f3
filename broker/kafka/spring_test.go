package kafka_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/bridge/bridgetest"
	"github.com/settlemq/settle/broker/kafka"
	"github.com/settlemq/settle/internal/services"
)

// spring runs a consumer with Spring Kafka, which fails until a record comes
// back.
func (c *climber) spring(how string) *services.Java {
	c.t.Helper()
	return services.StartJava(c.t, filepath.Join("testdata", "spring"), "FailingConsumer", how, strings.TrimPrefix(c.at, "kafka://"), c.topic, c.ladder.Group)
}

func (c *climber) declare(b *kafka.Broker) bridge.Group {
	c.t.Helper()
	g, err := b.Declare(c.t.Context(), c.ladder)
	must(c.t, err)
	return g
}

func TestWhatSpringsDeadLetterPublishingRecovererSendsIsReadAndComesBack(t *testing.T) {
	at := serverForTest(t)
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("runs with SETTLE_TEST_ALL=1: it needs a JDK and Maven")
	}
	c := newClimber(t, at)
	b := c.connection(t)
	defer b.Close()
	g := c.declare(b)
	java := c.spring("letters")
	var batch []settle.Message
	for n := range 5 {
		batch = append(batch, c.messageOf("order-"+strconv.Itoa(n), 1, 0))
	}
	places := map[string]settle.Coordinates{}
	for i, receipt := range b.Publish(t.Context(), batch) {
		must(t, receipt.Err)
		places[batch[i].Event.ID] = receipt.At
	}
	c.produce(&kgo.Record{Topic: c.topic, Key: []byte("gone")})
	c.produce(&kgo.Record{Topic: c.topic, Key: []byte("cut"), Value: []byte("\xff\x00"), Headers: []kgo.RecordHeader{{Key: "b", Value: []byte{0, 255}}, {Key: "b", Value: nil}}})
	c.produce(&kgo.Record{Topic: c.topic, Value: []byte("no key")})
	seen := map[string]bool{}
	for _, l := range bridgetest.Letters(t, b, g, 8) {
		seen[l.Record.Key] = true
		switch {
		case l.Record.Event != nil:
			if at := places[l.Record.Event.ID]; l.From != (bridge.Place{Topic: c.topic, Partition: at.Partition, Offset: at.Offset}) {
				t.Errorf("it came from %+v, was at %+v", l.From, at)
			}
			if l.Exception != "java.lang.IllegalStateException" || !strings.Contains(l.Message, "no stock for order-") || !strings.Contains(l.Trace, "FailingConsumer") || l.Class != settle.ClassHandler {
				t.Errorf("the letter is %+v", l)
			}
		case l.Record.Key == "cut":
			if l.Class != settle.ClassDecode || !strings.HasSuffix(l.Exception, "DeserializationException") || string(l.Record.Raw) != "\xff\x00" || l.From.Topic != c.topic {
				t.Errorf("what can't be read is %+v", l)
			}
			continue // Spring can't read it again
		case l.Record.Key == "gone" && len(l.Record.Raw) > 0:
			t.Errorf("the tombstone is %+v", l)
		}
		if l.Record.Headers["kafka_dlt-original-offset"] != strconv.FormatInt(l.From.Offset, 10) {
			t.Errorf("the headers are %v", l.Record.Headers)
		}
		c.comesBack(java, b, g, l)
	}
	if len(seen) != 8 {
		t.Errorf("there are letters of %v", seen)
	}
}

// comesBack wants Spring to receive a letter's record again, by its origin.
func (c *climber) comesBack(java *services.Java, b *kafka.Broker, g bridge.Group, l bridge.Letter) {
	c.t.Helper()
	must(c.t, bridgetest.SendBack(c.t, b, g, l, bridge.ToOrigin))
	key, value, partition := l.Record.Key, string(l.Record.Raw), strconv.Itoa(l.From.Partition)
	if key == "" {
		key = "null"
	}
	if l.Record.Key == "gone" {
		value = "null"
	}
	line := strings.Split(java.Line(patience), "\t")
	if len(line) != 6 || line[0] != c.topic || key != "null" && line[1] != partition || line[2] != key || line[3] != value || line[4] != "r1" {
		c.t.Fatalf("Spring received %q, want key %s in partition %s with %q", line, key, partition, value)
	}
	for name := range strings.FieldsSeq(line[5]) {
		if strings.HasPrefix(name, "kafka_") {
			c.t.Errorf("it has the header %s", name)
		}
	}
}

func TestARetryableTopicOfSpringsClimbsTheLadderThatIsDeclaredAndConsumesWhatComesBack(t *testing.T) {
	at := serverForTest(t)
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("runs with SETTLE_TEST_ALL=1: it needs a JDK and Maven")
	}
	c := newClimber(t, at)
	c.ladder.Steps = []time.Duration{500 * time.Millisecond, time.Second}
	b := c.connection(t)
	defer b.Close()
	g := c.declare(b)
	t.Cleanup(func() { _, _ = c.admin.DeleteTopics(context.Background(), g.Retry) })
	java := c.spring("retry")
	m := c.messageOf("order-1", 1, 0)
	receipt := b.Publish(t.Context(), []settle.Message{m})[0]
	must(t, receipt.Err)
	l := bridgetest.Letters(t, b, g, 1)[0]
	if l.Attempts != 3 || l.From != (bridge.Place{Topic: c.topic, Partition: receipt.At.Partition, Offset: receipt.At.Offset}) || l.Exception != "java.lang.IllegalStateException" ||
		l.Class != settle.ClassHandler || !slices.Equal(l.To, []bridge.Target{bridge.ToGroup, bridge.ToOrigin}) {
		t.Fatalf("the letter is %+v", l)
	}
	must(t, bridgetest.SendBack(t, b, g, l, bridge.ToGroup))
	line := strings.Split(java.Line(patience), "\t")
	if len(line) != 6 || line[0] != g.Retry || line[2] != "order-1" || line[3] != string(l.Record.Raw) || line[4] != "r1" {
		t.Fatalf("Spring received %q", line)
	}
}
