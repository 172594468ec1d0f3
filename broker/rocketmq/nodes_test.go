package rocketmq_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/rocketmq"
	"github.com/settlemq/settle/internal/services"
)

func TestOfTwoMastersOneThatIsAwayHoldsUpItsOwnKeysOnly(t *testing.T) {
	onlyWhenAll(t)
	two := services.Up(t, []string{"rocketmq2"})[0]
	t.Run("its keys wait for it, also in a process that has begun since", func(t *testing.T) { keysWait(t, two) })
	t.Run("one that hangs is not waited for long", func(t *testing.T) { hanging(t, two) })
	t.Run("with any its keys go elsewhere", func(t *testing.T) { keysGoElsewhere(t, two) })
}

func keysWait(t *testing.T, two *services.Service) {
	r := newRig(t, two.URL())
	b := closing(t, r.open(t, r.config()))
	const keys = 40
	at := map[string]int{}
	batch := events(r.topic, "k", keys, 1)
	for i, got := range published(t, b, batch) {
		at[batch[i].Event.AggregateID] = got.At.Partition
	}
	onB := func(key string) bool { return at[key] >= queues } // a's queues come first
	two.Part("b").Kill()
	late := closing(t, r.open(t, r.config()))
	waiting := partly(t, b, events(r.topic, "k", keys, 2), onB)
	if more := partly(t, late, waiting, onB); len(more) != len(waiting) || len(more) == 0 {
		t.Errorf("%d of %d keys wait in a process that has begun since", len(more), len(waiting))
	}
	free := slices.DeleteFunc(events(r.topic, "k", keys, 3), func(m settle.Message) bool { return onB(m.Event.AggregateID) })
	published(t, late, free)
	two.Part("b").Start()
	publishedInTime(t, late, waiting)
	publishedInTime(t, b, slices.DeleteFunc(events(r.topic, "k", keys, 3), func(m settle.Message) bool { return !onB(m.Event.AggregateID) }))
	if times := inOrder(t, r.log(t)); len(times) != 3*keys {
		t.Errorf("%d events are in the log, want %d", len(times), 3*keys)
	}
}

// partly publishes events of which those of some keys have to wait, and returns
// those.
func partly(t *testing.T, b settle.Broker, batch []settle.Message, wait func(key string) bool) (waiting []settle.Message) {
	t.Helper()
	began := time.Now()
	for i, got := range b.Publish(t.Context(), batch) {
		m := batch[i]
		switch {
		case !wait(m.Event.AggregateID) && got.Err != nil:
			t.Errorf("key %s has its queue on a node that is up: %v", m.Event.AggregateID, got.Err)
		case wait(m.Event.AggregateID) && (got.Err == nil || settle.ScopeOf(got.Err) != settle.ScopeBroker):
			t.Errorf("key %s has its queue on a node that is down: %v", m.Event.AggregateID, got.Err)
		case got.Err != nil:
			waiting = append(waiting, m)
		}
	}
	if took := time.Since(began); took > patience/4 {
		t.Errorf("it took %v", took)
	}
	return waiting
}

func keysGoElsewhere(t *testing.T, two *services.Service) {
	r := newRig(t, two.URL())
	b := closing(t, r.open(t, r.config()))
	published(t, b, events(r.topic, "k", 40, 1))
	two.Part("b").Kill()
	r.at += "?any=true"
	anywhere := closing(t, r.open(t, r.config()))
	publishedInTime(t, anywhere, events(r.topic, "k", 40, 2))
	two.Part("b").Start()
}

func hanging(t *testing.T, two *services.Service) {
	r := newRig(t, two.URL())
	cfg := r.config()
	cfg.Timeout = 2 * time.Second
	b := closing(t, r.open(t, cfg))
	const keys = 40
	batch := events(r.topic, "k", keys, 1)
	at := map[string]int{}
	for i, got := range published(t, b, batch) {
		at[batch[i].Event.AggregateID] = got.At.Partition
	}
	onB := func(key string) bool { return at[key] >= queues }
	two.Part("b").Pause()
	waiting := partly(t, b, events(r.topic, "k", keys, 2), onB)
	two.Part("b").Resume()
	publishedInTime(t, b, waiting)
	publishedInTime(t, b, events(r.topic, "k", keys, 3))
	if times := inOrder(t, r.log(t)); len(times) != 3*keys {
		t.Errorf("%d events are in the log, want %d", len(times), 3*keys)
	}
}

func TestWithoutNameServersKnownTopicsGoOnAndNobodyNewGetsIn(t *testing.T) {
	onlyWhenAll(t)
	server := services.Up(t, []string{"rocketmq"})[0]
	r := newRig(t, server.URL())
	b := closing(t, r.open(t, r.config()))
	published(t, b, events(r.topic, "k", 10, 1))
	server.Part("ns").Kill()
	time.Sleep(3 * time.Second) // routes are asked for each second
	published(t, b, events(r.topic, "k", 10, 2))
	if err := b.Ping(t.Context()); err != nil {
		t.Errorf("Ping: %v", err)
	}
	cfg := r.config()
	cfg.ConnectTimeout = time.Second
	if _, err := rocketmq.Open(t.Context(), r.at, cfg); err == nil || !strings.Contains(err.Error(), r.names[0]) {
		t.Errorf("Open: %v", err)
	}
	server.Part("ns").Start()
	published(t, closing(t, r.open(t, r.config())), events(r.topic, "k", 10, 3))
	inOrder(t, r.log(t))
}

// A master that has to have a slave takes nothing that the slave does not have.
func TestWithoutItsSlaveAMasterAcknowledgesNothingAndGoesOnWhenItIsBack(t *testing.T) {
	onlyWhenAll(t)
	ha := services.Up(t, []string{"rocketmqha"})[0]
	r := newRig(t, ha.URL())
	b := closing(t, r.open(t, r.config()))
	published(t, b, events(r.topic, "k", 20, 1))
	ha.Part("s").Kill()
	batch := events(r.topic, "k", 20, 2)
	for i, got := range b.Publish(t.Context(), batch) {
		if got.Err == nil || settle.ScopeOf(got.Err) != settle.ScopeBroker {
			t.Errorf("event %s: %v", batch[i].ID, got.Err)
		}
	}
	ha.Part("s").Start()
	publishedInTime(t, b, batch)
	published(t, b, events(r.topic, "k", 20, 3))
	if times := inOrder(t, r.log(t)); len(times) != 60 {
		t.Errorf("%d events are in the log", len(times))
	}
}

// Name servers forget a topic when all its brokers are away.
func TestATopicWhoseOnlyBrokerIsAwayIsNotMissing(t *testing.T) {
	onlyWhenAll(t)
	server := services.Up(t, []string{"rocketmq"})[0]
	r := newRig(t, server.URL())
	b := closing(t, r.open(t, r.config()))
	published(t, b, events(r.topic, "k", 10, 1))
	m := deliverTo(t, b, "readers", r.topic)
	m.await(t, 10)
	server.Part("a").Kill()
	for range 2 {
		for _, got := range b.Publish(t.Context(), events(r.topic, "k", 10, 2)) {
			if got.Err == nil || settle.ScopeOf(got.Err) != settle.ScopeBroker {
				t.Errorf("got %v, want a broker error", got.Err)
			}
		}
		time.Sleep(3 * time.Second) // routes are asked for each second
	}
	cfg := r.config()
	cfg.Topics, cfg.ConnectTimeout = nil, time.Second
	if _, err := rocketmq.Open(t.Context(), r.at, cfg); err == nil || !strings.Contains(err.Error(), "know no broker") {
		t.Errorf("Open: %v", err)
	}
	if err := b.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "broker-a") {
		t.Errorf("Ping: %v", err)
	}
	server.Part("a").Start()
	publishedInTime(t, b, events(r.topic, "k", 10, 2))
	m.await(t, 20)
	inOrder(t, m.records)
}
