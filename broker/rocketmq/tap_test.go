package rocketmq_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/rocketmq"
	"github.com/settlemq/settle/broker/rocketmq/remoting"
)

func TestATapReadsAllQueuesBackWritesWhatAForeignerWouldAndRemoves(t *testing.T) {
	r := newRig(t, serverForTest(t))
	tap, err := rocketmq.OpenTap(r.at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tap.Close() }()
	if err := tap.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := readTap(t, tap, r.topic); len(got) != 0 {
		t.Errorf("a topic that is missing holds %v", got)
	}
	b := r.open(t, r.config())
	defer func() { _ = b.Close() }()
	var batch []settle.Message
	for n := range 60 {
		e := &settle.Event{Type: "thing.done", AggregateID: fmt.Sprint("key-", n%20), AggregateSeq: int64(n/20 + 1), Payload: []byte("{}")}
		if err := e.Prepare(time.Now()); err != nil {
			t.Fatal(err)
		}
		e.Topic = r.topic
		batch = append(batch, settle.Message{ID: e.ID, Event: e})
	}
	receipts := b.Publish(t.Context(), batch)
	cut := []byte(`{"eventId":"cut`)
	planted, err := tap.Plant(t.Context(), r.topic, queues+3, "foreign", map[string]string{"h": "v"}, cut)
	if err != nil || planted.Partition != 3 {
		t.Fatalf("planted at %+v, %v; the topic has %d queues", planted, err, queues)
	}
	if again, err := tap.Plant(t.Context(), r.topic, queues+3, "foreign", nil, cut); again != planted || err != nil {
		t.Errorf("under the same id again at %+v, %v", again, err)
	}
	got := readTap(t, tap, r.topic)
	if len(got) != len(batch)+1 {
		t.Errorf("%d records are read back of %d", len(got), len(batch)+1)
	}
	for i, m := range batch {
		if rec := got[receipts[i].At]; receipts[i].Err != nil || rec.Event == nil || rec.Event.ID != m.ID {
			t.Errorf("at %+v stands %+v, %v; want %s", receipts[i].At, rec, receipts[i].Err, m.ID)
		}
	}
	if rec := got[planted]; string(rec.Raw) != string(cut) || rec.DecodeErr == nil || rec.Headers["h"] != "v" {
		t.Errorf("planted is %+v", rec)
	}
	for _, place := range []float64{0, 0.5, 0.999, 1} {
		some, n := map[int]bool{}, 0
		err := tap.ReadSome(t.Context(), r.topic, place, 4, func(rec settle.Record) error { some[rec.At.Partition], n = true, n+1; return nil })
		if len(some) != 1 || n > 4 || err != nil {
			t.Errorf("at %v: %d of queues %v, %v; want up to 4 of one", place, n, some, err)
		}
	}
	leads, whole, err := tap.Leads(t.Context(), r.topic, nil)
	led := 0
	for _, n := range leads {
		led += n
	}
	if led != queues || !whole || err != nil {
		t.Errorf("%v lead, all in place: %v, %v; the topic has %d queues", leads, whole, err, queues)
	}
	tapRemoves(t, r, tap)
}

func readTap(t *testing.T, tap *rocketmq.Tap, topic string) map[settle.Coordinates]settle.Record {
	t.Helper()
	all, last := map[settle.Coordinates]settle.Record{}, map[int]int64{}
	err := tap.ReadAll(t.Context(), topic, func(rec settle.Record) error {
		if before, is := last[rec.At.Partition]; is && rec.At.Offset <= before {
			t.Errorf("%+v comes behind position %d", rec.At, before)
		}
		all[rec.At], last[rec.At.Partition] = rec, rec.At.Offset
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func tapRemoves(t *testing.T, r *rig, tap *rocketmq.Tap) {
	t.Helper()
	nodes, err := r.wire.Cluster(t.Context(), r.names[0])
	if err != nil {
		t.Fatal(err)
	}
	group := remoting.Group{Name: "group-" + settle.NewID(), Enabled: true, RetryQueues: 1}
	if err := r.wire.SetGroup(t.Context(), nodes[0].Addr, group); err != nil {
		t.Fatal(err)
	}
	dead := remoting.Topic{Name: "%DLQ%" + group.Name, Read: 1, Write: 1, Perm: remoting.PermRead | remoting.PermWrite}
	if err := r.wire.SetTopic(t.Context(), nodes[0].Addr, dead); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := tap.Remove(t.Context(), r.topic, []string{group.Name, "missing"}); err != nil {
			t.Error(err)
		}
	}
	groups, err := r.wire.Groups(t.Context(), nodes[0].Addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		if g.Name == group.Name {
			t.Errorf("group %s is left", g.Name)
		}
	}
	for _, name := range []string{r.topic, dead.Name} {
		if _, err := r.wire.TopicAt(t.Context(), nodes[0].Addr, name); !remoting.IsRefusal(err, remoting.TopicMissing) {
			t.Errorf("topic %s is left, %v", name, err)
		}
		if _, err := r.wire.Route(t.Context(), r.names[0], name); !remoting.IsRefusal(err, remoting.TopicMissing) {
			t.Errorf("name servers know topic %s, %v", name, err)
		}
	}
}
