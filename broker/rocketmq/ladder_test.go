package rocketmq_test

import (
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/bridge/bridgetest"
	"github.com/settlemq/settle/broker/rocketmq"
	"github.com/settlemq/settle/broker/rocketmq/remoting"
)

func TestOnALadderAMessageComesAgainAsOftenAsThereAreStepsAndIsDeadThen(t *testing.T) {
	c := newClimber(t, serverForTest(t))
	b := c.connection(t)
	defer func() { _ = b.Close() }()
	c.ladder.Steps = []time.Duration{time.Second}
	g, err := b.Declare(t.Context(), c.ladder)
	if err != nil || g.Name != c.ladder.Group || len(g.Dead) != 1 || g.Dead[0] != c.dead() || g.Retry != c.retry() {
		t.Fatalf("the group is %+v, %v", g, err)
	}
	c.foreign(t, "k", []byte("no event"), map[string]string{"a": "b"})
	const oneSecond = 1 // the first of the broker's levels
	began := time.Now()
	c.sendBack(oneSecond)
	c.sendBack(oneSecond)
	if waited := time.Since(began); waited < 500*time.Millisecond {
		t.Errorf("it came again after %s", waited)
	}
	l := bridgetest.Letters(t, b, g, 1)[0]
	if l.Attempts != 2 || l.From.Topic != c.topic || string(l.Record.Raw) != "no event" || l.Record.Headers["a"] != "b" {
		t.Errorf("the letter is %+v", l)
	}
	if l.At.Queue == "" || l.At.Topic != c.dead() {
		t.Errorf("it lies at %+v", l.At)
	}
}

func TestALadderThatABrokerCanNotClimbIsRefusedAndNothingIsChanged(t *testing.T) {
	c := newClimber(t, serverForTest(t))
	b := c.connection(t)
	defer func() { _ = b.Close() }()
	refused := func(l bridge.Ladder, says string) {
		t.Helper()
		if g, err := b.Declare(t.Context(), l); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v is %+v, %v; want %q", l, g, err, says)
		}
	}
	with := func(steps ...time.Duration) bridge.Ladder {
		l := c.ladder
		l.Steps = steps
		return l
	}
	refused(with(time.Minute, 45*time.Second), "a step of 45s is not one of the broker's delay levels")
	refused(with(45*time.Second), "the nearest are 30s and 1m0s")
	refused(with(3*time.Hour), "the nearest are 2h0m0s")
	refused(with(time.Millisecond), "the nearest are 1s")
	nodes, err := c.wire.Cluster(t.Context(), c.names[0])
	if err != nil {
		t.Fatal(err)
	}
	there := remoting.Group{Name: c.ladder.Group, Enabled: true, Retries: 7, RetryQueues: 1}
	if err := c.wire.SetGroup(t.Context(), nodes[0].Addr, there); err != nil {
		t.Fatal(err)
	}
	refused(with(time.Minute), "its messages come again 7 times (retryMaxTimes), not 1")
	groups, err := c.wire.Groups(t.Context(), nodes[0].Addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		if g.Name == there.Name && g != there {
			t.Errorf("the group was changed to %+v", g)
		}
	}
	refused(bridge.Ladder{Topic: c.topic, Group: "g", Queue: "q"}, "reads all queues of its topic")
	refused(bridge.Ladder{Topic: "no.topic", Group: "g"}, "no dots")
	refused(bridge.Ladder{Topic: c.topic, Group: "no.group"}, "no dots")
	refused(bridge.Ladder{Topic: "missing-" + settle.NewID(), Group: "g"}, "no topic")
	refused(bridge.Ladder{Topic: c.topic, Group: "g", Steps: make([]time.Duration, 17)}, "at most 16 steps")
}

func TestStepsAreComparedWithTheLevelsThatABrokerHas(t *testing.T) {
	for levels, says := range map[string]string{
		"1s 5s 10s 1m 2h 1d": "", "": "no delay levels", "1s 5x": "can't be read", "s": "can't be read", "0s": "can't be read",
	} {
		err := rocketmq.Expressible([]time.Duration{5 * time.Second, time.Minute, 24 * time.Hour}, levels)
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("of %q it says %v", levels, err)
		}
	}
}
