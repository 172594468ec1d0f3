package rabbitmq_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/bridge/bridgetest"
	"github.com/settlemq/settle/internal/services"
)

// spring runs a consumer with Spring AMQP on the climber's queue, which fails
// until a message comes back.
func (c *climber) spring(how string) *services.Java {
	c.t.Helper()
	return services.StartJava(c.t, filepath.Join("testdata", "spring"), "FailingConsumer", how, strings.TrimSuffix(strings.Replace(c.at, "rabbitmq://", "amqp://", 1), "/"), c.queue())
}

// returned wants Spring to receive a letter's message again.
func returned(t testing.TB, java *services.Java, l bridge.Letter, key string) {
	t.Helper()
	line := strings.Split(java.Line(patience), "\t")
	if len(line) != 5 || line[0] != l.Record.Event.ID || line[1] != string(l.Record.Raw) || line[2] != "r1" || line[3] != key {
		t.Fatalf("Spring received %q, want event %s with the routing key %q", line, l.Record.Event.ID, key)
	}
	for name := range strings.FieldsSeq(line[4]) {
		if strings.HasPrefix(name, "x-death") || strings.HasPrefix(name, "x-first-death") || strings.HasPrefix(name, "x-exception") || strings.HasPrefix(name, "x-original") {
			t.Errorf("it has the header %s", name)
		}
	}
}

func TestAConsumerOfSpringsClimbsTheLadderByRejectingAndConsumesWhatComesBack(t *testing.T) {
	at := serverForTest(t)
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("runs with SETTLE_TEST_ALL=1: it needs a JDK and Maven")
	}
	c := newClimber(t, at, 300*time.Millisecond, 600*time.Millisecond)
	b := closing(t, c.connection(t))
	g := c.declare(b)
	java := c.spring("reject")
	publishAll(t, b, events(c.topic, "k", 3))
	for _, l := range bridgetest.Letters(t, b, g, 3) {
		if l.Attempts != 3 || l.Class != settle.ClassHandler || l.From != (bridge.Place{Exchange: c.topic, RoutingKey: "test.happened", Queue: c.queue()}) || l.Record.Event == nil {
			t.Fatalf("the letter is %+v", l)
		}
		must(t, bridgetest.SendBack(t, b, g, l, bridge.ToGroup))
		returned(t, java, l, c.queue())
		must(t, bridgetest.SendBack(t, b, g, l, bridge.ToOrigin))
		returned(t, java, l, "test.happened")
	}
}

func TestWhatSpringsRepublishMessageRecovererSendsIsReadAndComesBack(t *testing.T) {
	at := serverForTest(t)
	if os.Getenv("SETTLE_TEST_ALL") == "" {
		t.Skip("runs with SETTLE_TEST_ALL=1: it needs a JDK and Maven")
	}
	c := newClimber(t, at, time.Minute)
	b := closing(t, c.connection(t))
	g := c.declare(b)
	java := c.spring("republish")
	publishAll(t, b, events(c.topic, "k", 1))
	l := bridgetest.Letters(t, b, g, 1)[0]
	if l.Exception != "java.lang.IllegalStateException" || l.Record.Event == nil || l.Message != "no stock for "+l.Record.Event.ID || !strings.Contains(l.Trace, "FailingConsumer") || l.Class != settle.ClassHandler ||
		l.From.Exchange != c.topic || l.From.RoutingKey != "test.happened" || l.Attempts != 1 || l.DiedAt.IsZero() {
		t.Fatalf("the letter is %+v", l)
	}
	must(t, bridgetest.SendBack(t, b, g, l, bridge.ToGroup))
	returned(t, java, l, c.queue())
	// A message of Java's with headers that only it has the types of.
	c.send(c.topic, "k", amqp.Publishing{MessageId: "m2", Headers: amqp.Table{"n": int32(7), "list": []any{"a", int64(1)}}, Body: []byte("x")})
	l = bridgetest.Letters(t, b, g, 1)[0]
	if l.Class != settle.ClassDecode || l.Record.Headers["n"] != "7" || l.Exception != "java.lang.IllegalStateException" {
		t.Fatalf("the letter is %+v", l)
	}
}
