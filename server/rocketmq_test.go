package server_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/rocketmq/remoting"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/internal/services"
	"github.com/settlemq/settle/server"
)

// rocketTopic is a topic of a test's own, which goes with the test, as groups do.
func rocketTopic(t *testing.T, at string, groups ...string) string {
	t.Helper()
	topic := "served-" + settle.NewID()
	t.Cleanup(func() {
		tap, err := dial.Tap(at)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tap.Close() }()
		if err := tap.Remove(context.WithoutCancel(t.Context()), topic, groups); err != nil {
			t.Error(err)
		}
	})
	return topic
}

func TestAnUnsafeRocketMQIsRefusedOrWarnedOf(t *testing.T) {
	broker := services.URL(t, "SETTLE_TEST_ROCKETMQ", "rocketmq")
	at, _ := database(t)
	source := server.SourceConfig{DB: at, Broker: broker, Topics: []string{rocketTopic(t, broker)}, Relay: server.RelayConfig{LeaseTTL: time.Second}}
	s, log, stop := start(t, server.Config{Sources: map[string]server.SourceConfig{"order": source}})
	h := await(t, s, log, "refused", func(h server.Health) bool { return h.Sources["order"].State == server.StateRefused })
	for _, want := range []string{"the broker may lose what it has acknowledged, so nothing is relayed to it until that is mended, or the source says broker_durability: lax", "replication: one copy, which dies with its disk", "brokerRole=SLAVE"} {
		if cause := h.Sources["order"].Cause; !strings.Contains(cause, want) {
			t.Errorf("the cause does not say %q: %s", want, cause)
		}
	}
	stop()
	source.BrokerDurability = server.DurabilityLax
	warned(t, source, "replication: one copy")
}

func TestADeadLetterOfARocketMQConsumerThatIsNotOursIsBroughtInAndSentBack(t *testing.T) {
	at := services.URL(t, "SETTLE_TEST_ROCKETMQ", "rocketmq")
	group := "g" + settle.NewID()[24:]
	topic := rocketTopic(t, at, group, "settle-bridge-"+group)
	wire := remoting.New(remoting.Config{Timeout: patience})
	t.Cleanup(wire.Close)
	names := strings.TrimPrefix(at, "rocketmq://")
	deadAndBack(t, at, topic, group, time.Second, &sendingBack{wire: wire, names: names, topic: topic, group: group, read: map[string]int64{}}, 2)
}

// sendingBack is a consumer of RocketMQ, which has the broker bring again what it
// can't handle.
type sendingBack struct {
	wire                *remoting.Client
	names, topic, group string
	read                map[string]int64
}

func (c *sendingBack) next(t *testing.T) (string, map[string]string, func(), func()) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for _, topic := range []string{c.topic, "%RETRY%" + c.group} {
			if m, master, is := c.from(t, topic); is {
				headers := map[string]string{}
				for pair := range strings.SplitSeq(m.Properties, "\x02") {
					name, value, _ := strings.Cut(pair, "\x01")
					headers[name] = value
				}
				return string(m.Body), headers, func() { c.giveUp(t, m, master) }, func() {}
			}
		}
	}
	t.Fatal("nothing came")
	return "", nil, nil, nil
}

func (c *sendingBack) from(t *testing.T, topic string) (m remoting.Message, master string, is bool) {
	t.Helper()
	route, err := c.wire.Route(t.Context(), c.names, topic)
	if remoting.IsRefusal(err, remoting.TopicMissing) {
		return m, "", false
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range route.Queues {
		master = route.Master(q.Broker)
		for id := range q.Read {
			at := topic + master + strconv.Itoa(id)
			found, err := c.wire.Pull(t.Context(), master, remoting.Pulling{Group: "TOOLS_CONSUMER", Topic: topic, Queue: id, Offset: c.read[at], MaxMessages: 1, MaxBytes: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			if len(found.Messages) > 0 {
				c.read[at] = found.Messages[0].Offset + 1
				return found.Messages[0], master, true
			}
		}
	}
	return m, "", false
}

// giveUp asks for the message again after the first delay level, a second.
func (c *sendingBack) giveUp(t *testing.T, m remoting.Message, master string) {
	t.Helper()
	place, err := strconv.ParseInt(m.ID[len(m.ID)-16:], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.wire.Ask(t.Context(), master, remoting.Command{Code: 36, Fields: map[string]string{
		"group": c.group, "offset": strconv.FormatInt(place, 10), "delayLevel": "1", "originMsgId": m.ID, "originTopic": m.Topic, "unitMode": "false", "maxReconsumeTimes": "16",
	}})
	if err != nil || a.Code != 0 {
		t.Fatalf("sending it back: %+v, %v", a, err)
	}
}
