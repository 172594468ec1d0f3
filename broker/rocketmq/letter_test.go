package rocketmq_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/bridge/bridgetest"
	"github.com/settlemq/settle/broker/rocketmq"
	"github.com/settlemq/settle/broker/rocketmq/remoting"
)

// climber is a consumer that is not ours, of a group with a ladder, and another
// group of the same topic.
type climber struct {
	*rig
	t          testing.TB
	ladder     bridge.Ladder
	own, other *pile
}

func newClimber(t testing.TB, at string) *climber {
	t.Helper()
	r := newRig(t, at)
	if err := r.open(t, r.config()).Close(); err != nil { // makes the topic
		t.Fatal(err)
	}
	c := &climber{rig: r, t: t, ladder: bridge.Ladder{Topic: r.topic, Group: "g" + r.topic[len(r.topic)-12:]}}
	t.Cleanup(func() {
		tap, err := rocketmq.OpenTap(at)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tap.Close() }()
		if err := tap.Remove(context.WithoutCancel(t.Context()), r.topic, []string{c.ladder.Group, "settle-bridge-" + c.ladder.Group}); err != nil {
			t.Error(err)
		}
	})
	c.own, c.other = c.pile(r.topic, c.retry()), c.pile(r.topic)
	return c
}

func (c *climber) retry() string { return "%RETRY%" + c.ladder.Group }
func (c *climber) dead() string  { return "%DLQ%" + c.ladder.Group }

func (c *climber) connection(t testing.TB) bridge.Broker {
	t.Helper()
	return c.open(t, rocketmq.Config{RouteEvery: time.Second})
}

// pile reads topics as a group does that keeps its positions to itself.
type pile struct {
	c      *climber
	topics []string
	read   map[place]int64
}

type place struct {
	master, topic string
	queue         int
}

func (c *climber) pile(topics ...string) *pile {
	return &pile{c: c, topics: topics, read: map[place]int64{}}
}

// next receives a message, if there is one within a while.
func (p *pile) next(within time.Duration) (remoting.Message, string, bool) {
	for began := time.Now(); ; {
		for _, topic := range p.topics {
			if m, addr, is := p.from(topic); is {
				return m, addr, true
			}
		}
		if time.Since(began) > within {
			return remoting.Message{}, "", false
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (p *pile) from(topic string) (remoting.Message, string, bool) {
	route, err := p.c.wire.Route(p.c.t.Context(), p.c.names[0], topic)
	if remoting.IsRefusal(err, remoting.TopicMissing) {
		return remoting.Message{}, "", false
	}
	if err != nil {
		p.c.t.Fatal(err)
	}
	for _, q := range route.Queues {
		for id := range q.Read {
			at := place{route.Master(q.Broker), topic, id}
			found, err := p.c.wire.Pull(p.c.t.Context(), at.master, remoting.Pulling{Group: "TOOLS_CONSUMER", Topic: topic, Queue: id, Offset: p.read[at], MaxMessages: 1, MaxBytes: 4 << 20})
			if err != nil {
				p.c.t.Fatal(err)
			}
			if len(found.Messages) > 0 {
				p.read[at] = found.Messages[0].Offset + 1
				return found.Messages[0], at.master, true
			}
		}
	}
	return remoting.Message{}, "", false
}

// sendBack is what a consumer of RocketMQ's own does with a message that it could not
// handle; the level -1 puts it away at once.
func (c *climber) sendBack(level int) {
	c.t.Helper()
	m, addr, is := c.own.next(patience)
	if !is {
		c.t.Fatal("nothing comes to send back")
	}
	at, err := strconv.ParseInt(m.ID[len(m.ID)-16:], 16, 64)
	if err != nil {
		c.t.Fatal(err)
	}
	a, err := c.wire.Ask(c.t.Context(), addr, remoting.Command{Code: 36, Fields: map[string]string{
		"group": c.ladder.Group, "offset": strconv.FormatInt(at, 10), "delayLevel": strconv.Itoa(level), "originMsgId": m.ID, "originTopic": m.Topic, "unitMode": "false", "maxReconsumeTimes": "16",
	}})
	if err != nil || a.Code != 0 {
		c.t.Fatalf("sending it back: %+v, %v", a, err)
	}
}

func (c *climber) harness(t testing.TB) bridgetest.Harness {
	receive := func(p *pile) func(testing.TB) (settle.Record, bool) {
		return func(testing.TB) (settle.Record, bool) {
			m, _, is := p.next(time.Second)
			if !is {
				return settle.Record{}, false
			}
			properties := rocketmq.DecodeProperties(m.Properties)
			return settle.Record{Raw: m.Body, Key: properties["SHARDING_KEY"], Headers: properties}, true
		}
	}
	return bridgetest.Harness{
		Broker: c.connection(t), Again: func(t testing.TB) bridge.Broker { return c.connection(t) }, Ladder: c.ladder, Patience: patience,
		Publish: func(t testing.TB, key string, value []byte, headers map[string]string) {
			properties := map[string]string{"SHARDING_KEY": key}
			for k, v := range headers {
				properties[k] = v
			}
			c.foreign(t, key, value, properties)
		},
		GiveUp:  func(testing.TB, bridgetest.Failure) { c.sendBack(-1) },
		Receive: receive(c.own), ReceiveOther: receive(c.other),
		Missing: bridge.Group{Name: c.ladder.Group, Dead: []string{"nowhere-" + c.topic}},
		Without: []string{bridgetest.AbilityCause},
	}
}

func TestRocketMQBridgesDeadLetters(t *testing.T) {
	at := serverForTest(t)
	bridgetest.Run(t, func(t testing.TB) bridgetest.Harness { return newClimber(t, at).harness(t) })
}
