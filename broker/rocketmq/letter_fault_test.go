package rocketmq_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/bridge/bridgetest"
	"github.com/settlemq/settle/broker/rocketmq/remoting"
	"github.com/settlemq/settle/internal/services"
)

// bury puts messages into the group's topic of dead ones, at one node, as the broker
// does.
func (c *climber) bury(master string, bodies ...string) {
	c.t.Helper()
	var these []remoting.Outgoing
	for _, body := range bodies {
		these = append(these, remoting.Outgoing{Properties: "RETRY_TOPIC\x01" + c.topic + "\x02", Body: []byte(body)})
	}
	if _, err := c.wire.Send(c.t.Context(), master, remoting.Sending{Group: "other", Topic: c.dead(), Messages: these}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *climber) masters() (addrs []string) {
	c.t.Helper()
	nodes, err := c.wire.Cluster(c.t.Context(), c.names[0])
	if err != nil {
		c.t.Fatal(err)
	}
	for _, n := range nodes {
		if n.Master() {
			addrs = append(addrs, n.Addr)
		}
	}
	return addrs
}

// told is the position that the broker keeps of the bridge, -1 for none.
func (c *climber) told(master string) int64 {
	c.t.Helper()
	n, err := c.wire.GroupOffset(c.t.Context(), master, "settle-bridge-"+c.ladder.Group, c.dead(), 0)
	if remoting.IsRefusal(err, remoting.NotFound) {
		return -1
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

func TestABrokerIsToldOfNoLetterBeforeTheSinkHasIt(t *testing.T) {
	c := newClimber(t, serverForTest(t))
	b := c.connection(t)
	defer func() { _ = b.Close() }()
	g, err := b.Declare(t.Context(), c.ladder)
	if err != nil {
		t.Fatal(err)
	}
	at := c.masters()[0]
	c.bury(at, "one", "two", "three")
	s, err := b.Source(g)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	var calls atomic.Int32
	err = s.Letters(ctx, func(_ context.Context, some []bridge.Letter) error {
		if calls.Add(1) < 3 {
			if n := c.told(at); n > 0 {
				t.Errorf("the broker is told of %d letters that nobody has", n)
			}
			if string(some[0].Record.Raw) != "one" {
				t.Errorf("after a refusal %q comes", some[0].Record.Raw)
			}
			return errors.New("the store is away")
		}
		stop()
		return nil
	})
	if err != nil || calls.Load() != 3 {
		t.Errorf("%d calls, %v", calls.Load(), err)
	}
	if n := c.told(at); n != 3 {
		t.Errorf("the broker is told of %d letters, want 3", n)
	}
}

func TestATopicOfDeadLettersThatIsMadeAnewHasOtherLetters(t *testing.T) {
	c := newClimber(t, serverForTest(t))
	b := c.connection(t)
	defer func() { _ = b.Close() }()
	g, err := b.Declare(t.Context(), c.ladder)
	if err != nil {
		t.Fatal(err)
	}
	at := c.masters()[0]
	c.bury(at, "one", "two")
	first := bridgetest.Letters(t, b, g, 2)
	if err := c.wire.DeleteTopic(t.Context(), at, c.dead()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Declare(t.Context(), c.ladder); err != nil {
		t.Fatal(err)
	}
	c.bury(at, "one")
	again := bridgetest.Letters(t, b, g, 1)
	if string(again[0].Record.Raw) != "one" || again[0].Identity == first[0].Identity {
		t.Errorf("from the new topic comes %q, known as %s; before it was %s", again[0].Record.Raw, again[0].Identity, first[0].Identity)
	}
}

func TestAMissingTopicOfDeadLettersIsNamed(t *testing.T) {
	c := newClimber(t, serverForTest(t))
	b := c.connection(t)
	defer func() { _ = b.Close() }()
	s, err := b.Source(bridge.Group{Name: "g", Dead: []string{"%DLQ%nobody-" + c.topic}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Letters(t.Context(), func(context.Context, []bridge.Letter) error { return nil }); err == nil || !strings.Contains(err.Error(), "%DLQ%nobody-"+c.topic) {
		t.Errorf("it says %v", err)
	}
}

func TestManyDeadLettersAreReadInBoundedMemory(t *testing.T) {
	onlyWhenAll(t)
	c := newClimber(t, serverForTest(t))
	b := c.connection(t)
	defer func() { _ = b.Close() }()
	g, err := b.Declare(t.Context(), c.ladder)
	if err != nil {
		t.Fatal(err)
	}
	const n, size, together = 50_000, 1000, 500
	at := c.masters()[0]
	bodies := make([]string, together)
	for i := range bodies {
		bodies[i] = strings.Repeat("x", size)
	}
	for range n / together {
		c.bury(at, bodies...)
	}
	bridgetest.InBoundedMemory(t, b, g, n, 32<<20)
}

func TestDeadLettersOfANodeThatIsUpAreReadWhileAnotherIsDown(t *testing.T) {
	onlyWhenAll(t)
	two := services.Up(t, []string{"rocketmq2"})[0]
	c := newClimber(t, two.URL())
	b := c.connection(t)
	defer func() { _ = b.Close() }()
	g, err := b.Declare(t.Context(), c.ladder)
	if err != nil {
		t.Fatal(err)
	}
	masters := c.masters()
	c.bury(masters[0], "a1")
	c.bury(masters[1], "b1")
	s, err := b.Source(g)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	found, ended := make(chan bridge.Letter, 100), make(chan error, 1)
	go func() {
		ended <- s.Letters(ctx, func(_ context.Context, some []bridge.Letter) error {
			for _, l := range some {
				found <- l
			}
			return nil
		})
	}()
	seen := map[string]bool{}
	until := func(want ...string) {
		t.Helper()
		for _, w := range want {
			for !seen[w] {
				select {
				case l := <-found:
					seen[string(l.Record.Raw)] = true
				case err := <-ended:
					t.Fatalf("reading has ended: %v", err)
				case <-time.After(patience):
					t.Fatalf("%q does not come; there are %v", w, seen)
				}
			}
		}
	}
	until("a1", "b1")
	two.Part("b").Kill()
	c.bury(masters[0], "a2")
	until("a2")
	two.Part("b").Start()
	c.bury(masters[1], "b2")
	until("b2")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
