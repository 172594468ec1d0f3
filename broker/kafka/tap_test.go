package kafka_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/kafka"
)

func TestATapReadsAllPartitionsBackWritesWhatAForeignerWouldAndRemoves(t *testing.T) {
	t.Run("fake", func(t *testing.T) { tapped(t, newFake(t).url()) })
	t.Run("real", func(t *testing.T) { tapped(t, serverForTest(t)) })
}

func tapped(t *testing.T, at string) {
	r := newRig(t, at)
	tap, err := kafka.OpenTap(at)
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
	planted, err := tap.Plant(t.Context(), r.topic, 6+3, "foreign", map[string]string{"h": "v"}, cut)
	if err != nil || planted.Partition != 3 {
		t.Fatalf("planted at %+v, %v; the topic has 6 partitions", planted, err)
	}
	if again, err := tap.Plant(t.Context(), r.topic, 6+3, "foreign", nil, cut); again != planted || err != nil {
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
		some := map[int]int64{}
		err := tap.ReadSome(t.Context(), r.topic, place, 4, func(rec settle.Record) error { some[rec.At.Partition]++; return nil })
		if len(some) != 1 || err != nil {
			t.Errorf("at %v: of each partition %v, %v; want up to 4 of one", place, some, err)
		}
	}
	leads, whole, err := tap.Leads(t.Context(), r.topic, nil)
	led := 0
	for _, n := range leads {
		led += n
	}
	if led != 6 || !whole || err != nil {
		t.Errorf("%v lead, all copies in place: %v, %v; the topic has 6 partitions", leads, whole, err)
	}
	tapRemoves(t, r, tap)
}

func readTap(t *testing.T, tap *kafka.Tap, topic string) map[settle.Coordinates]settle.Record {
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

// tapRemoves leaves a group whose member was never heard to leave.
func tapRemoves(t *testing.T, r *rig, tap *kafka.Tap) {
	group := "group-" + settle.NewID()
	member, err := kgo.NewClient(kgo.SeedBrokers(r.raw.OptValue(kgo.SeedBrokers).([]string)...), kgo.ConsumerGroup(group), kgo.ConsumeTopics(r.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.InstanceID("one"))
	if err != nil {
		t.Fatal(err)
	}
	if err := member.PollFetches(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	member.Close() // who has an instance does not leave
	for range 2 {
		if err := tap.Remove(t.Context(), r.topic, []string{group, "missing"}); err != nil {
			t.Error(err)
		}
	}
	groups, err := r.admin.ListGroups(t.Context())
	if _, is := groups[group]; is || err != nil {
		t.Errorf("the group is left, %v", err)
	}
	topics, err := r.admin.ListTopics(t.Context())
	if topics.Has(r.topic) || err != nil {
		t.Errorf("the topic is left, %v", err)
	}
}

func TestATapSeesNothingOfATransactionThatIsOpenOrGivenUpAndReadsPastIt(t *testing.T) {
	r := newRig(t, newFake(t).url())
	b := r.open(t, r.config())
	defer func() { _ = b.Close() }()
	tap, err := kafka.OpenTap(r.at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tap.Close() }()
	writer, err := kgo.NewClient(kgo.SeedBrokers(r.raw.OptValue(kgo.SeedBrokers).([]string)...), kgo.TransactionalID(r.topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		if err := writer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := writer.ProduceSync(t.Context(), &kgo.Record{Topic: r.topic, Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if got := readTap(t, tap, r.topic); end == kgo.TryCommit && len(got) != 0 || end == kgo.TryAbort && len(got) != 1 {
			t.Errorf("what is not committed is read: %v", got)
		}
		if err := writer.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
		if got := readTap(t, tap, r.topic); len(got) != 1 {
			t.Errorf("%d records are read, of which one is committed", len(got))
		}
	}
}
