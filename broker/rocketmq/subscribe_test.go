package rocketmq_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/rocketmq"
	"github.com/settlemq/settle/broker/rocketmq/remoting"
)

// reading is one member of a group, alone or among others, with a ledger that gives
// each queue to who asks first.
type reading struct {
	cancel context.CancelFunc
	ended  chan error

	mu      sync.Mutex
	changed chan struct{}
	floors  map[string]settle.Floor
	records []settle.Record
	refuse  error
}

func deliverTo(t testing.TB, b settle.Broker, group string, topics ...string) *reading {
	t.Helper()
	r := &reading{ended: make(chan error, 1), changed: make(chan struct{}), floors: map[string]settle.Floor{}}
	r.join(t, b, group, topics...)
	return r
}

func (r *reading) join(t testing.TB, b settle.Broker, group string, topics ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r.cancel = cancel
	go func() {
		r.ended <- b.Subscribe(ctx, settle.Subscription{Group: group, Topics: topics, Ownership: r}, r)
	}()
	t.Cleanup(func() { r.stop(t) })
}

// Claim implements settle.Ownership.
func (r *reading) Claim(_ context.Context, topic string, n int) (all []settle.Claim, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p := range n {
		all = append(all, settle.Claim{Partition: settle.Partition{Topic: topic, Number: p, Owner: "m", Epoch: 1}, Floor: r.floors[topic+"/"+strconv.Itoa(p)], Expires: time.Now().Add(time.Minute)})
	}
	return all, nil
}

// RaiseFloor implements settle.Ownership.
func (r *reading) RaiseFloor(context.Context, settle.Partition, settle.Floor) error {
	return errors.New("no floor need be raised")
}

// Deliver implements settle.Sink.
func (r *reading) Deliver(_ context.Context, p settle.Partition, records []settle.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil {
		return r.refuse
	}
	last := records[len(records)-1]
	f := settle.Floor{Generation: p.Generation, Position: last.Position}
	if last.Event != nil {
		f.EventID = last.Event.ID
	}
	r.floors[p.Topic+"/"+strconv.Itoa(p.Number)] = f
	r.records = append(r.records, records...)
	close(r.changed)
	r.changed = make(chan struct{})
	return nil
}

// await waits until so many records are there.
func (r *reading) await(t testing.TB, n int) {
	t.Helper()
	for end := time.After(patience); ; {
		r.mu.Lock()
		have, changed := len(r.records), r.changed
		r.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-changed:
		case <-end:
			t.Fatalf("%d of %d records have come", have, n)
		}
	}
}

// stop ends it, and returns what Subscribe has returned.
func (r *reading) stop(t testing.TB) error {
	t.Helper()
	r.cancel()
	select {
	case err := <-r.ended:
		r.ended <- err
		return err
	case <-time.After(patience):
		t.Error("Subscribe does not return")
		return nil
	}
}

// RocketMQ keeps one subscription for a group and has members with another lose
// messages (F013). Ours are of no group there.
func TestMembersOfAGroupWithDifferentTopicsLoseNothingOfEachOthers(t *testing.T) {
	first := newRig(t, serverForTest(t))
	second := newRig(t, first.at)
	b := closing(t, first.open(t, rocketmq.Config{Topics: []string{first.topic, second.topic}, Queues: queues}))
	one := deliverTo(t, b, "shared", first.topic)
	both := deliverTo(t, b, "shared", second.topic)
	for n := 1; n <= 3; n++ {
		published(t, b, slices.Concat(events(first.topic, "k", 20, n), events(second.topic, "k", 20, n)))
	}
	one.await(t, 60)
	both.await(t, 60)
	if len(inOrder(t, one.records)) != 60 || len(inOrder(t, both.records)) != 60 {
		t.Errorf("%d and %d records came", len(one.records), len(both.records))
	}
}

func TestATopicThatGetsMoreQueuesIsReadWhollyAndItsKeysStayWhereTheyAre(t *testing.T) {
	r := newRig(t, serverForTest(t))
	b := closing(t, r.open(t, r.config()))
	at := map[string]int{}
	batch := events(r.topic, "k", 20, 1)
	for i, got := range published(t, b, batch) {
		at[batch[i].Event.AggregateID] = got.At.Partition
	}
	m := deliverTo(t, b, "more", r.topic)
	m.await(t, 20)
	nodes, err := r.wire.Cluster(t.Context(), r.names[0])
	if err != nil {
		t.Fatal(err)
	}
	kept, err := r.wire.TopicAt(t.Context(), nodes[0].Addr, r.topic)
	if err != nil {
		t.Fatal(err)
	}
	kept.Read, kept.Write = 2*queues, 2*queues
	if err := r.wire.SetTopic(t.Context(), nodes[0].Addr, kept); err != nil {
		t.Fatal(err)
	}
	_, err = r.wire.Send(t.Context(), nodes[0].Addr, remoting.Sending{Group: "other", Topic: r.topic, Queue: 2*queues - 1, Messages: []remoting.Outgoing{{Body: []byte("a foreign one")}}})
	if err != nil {
		t.Fatal(err)
	}
	m.await(t, 21)
	batch = events(r.topic, "k", 20, 2)
	for i, got := range published(t, b, batch) {
		if key := batch[i].Event.AggregateID; got.At.Partition != at[key] {
			t.Errorf("key %s went to partition %d and goes to %d", key, at[key], got.At.Partition)
		}
	}
	m.await(t, 41)
	inOrder(t, m.records)
}

func TestAGroupGoesOnAtItsFloorAndNotAtAnothersQueue(t *testing.T) {
	r := newRig(t, serverForTest(t))
	b := closing(t, r.open(t, r.config()))
	published(t, b, events(r.topic, "k", 20, 1))
	m := deliverTo(t, b, "floors", r.topic)
	m.await(t, 20)
	m.stop(t)
	m.mu.Lock()
	name := slices.Sorted(maps.Keys(m.floors))[0]
	f := m.floors[name]
	right := f
	f.Generation = "broker-z/7"
	m.floors[name] = f
	m.mu.Unlock()
	m.ended = make(chan error, 1)
	m.join(t, b, "floors", r.topic)
	select {
	case err := <-m.ended:
		m.ended <- err
		if !errors.Is(err, settle.ErrNewGeneration) {
			t.Errorf("Subscribe: %v", err)
		}
	case <-time.After(patience):
		t.Error("positions of one queue are taken for another's")
	}
	m.mu.Lock()
	m.floors[name] = right
	m.mu.Unlock()
	m.ended = make(chan error, 1)
	m.join(t, b, "floors", r.topic)
	published(t, b, events(r.topic, "k", 20, 2))
	m.await(t, 40)
	inOrder(t, m.records)
}
