package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/kafka"
)

func (r *rig) publish(t testing.TB, b settle.Publisher, from, to int64) {
	t.Helper()
	for seq := from; seq <= to; seq++ {
		await(t, fmt.Sprintf("event %d to be acknowledged", seq), func() bool { return publishOne(t, b, r.messageOf("k", seq, 0)).Err == nil })
	}
}

func (r *rig) lag(t testing.TB, group string) int64 {
	t.Helper()
	lags, err := r.admin.Lag(t.Context(), group)
	if err = errors.Join(err, lags.Error()); err != nil {
		t.Fatal(err)
	}
	return lags[group].Lag.Total()
}

func TestATopicMadeAnewIsReadAndWrittenByWhoKnewTheOldOne(t *testing.T) {
	r := newRig(t, serverForTest(t))
	r.make(t, 1, nil)
	var j journal
	b := r.open(t, kafka.Config{RefreshEvery: time.Second, Log: j.logger(), Declare: true})
	defer b.Close()
	s := newSink()
	leave := r.join(t, b, "g-"+r.topic, s)
	r.publish(t, b, 1, 20)
	s.await(t, 20)
	await(t, "the positions to be committed", func() bool { return r.lag(t, "g-"+r.topic) == 0 })
	if _, err := r.admin.DeleteTopics(t.Context(), r.topic); err != nil {
		t.Fatal(err)
	}
	await(t, "the topic to be gone", func() bool {
		answer, err := r.admin.CreateTopic(t.Context(), 1, -1, nil, r.topic)
		return err == nil && answer.Err == nil
	})
	r.publish(t, b, 1, 3)
	s.await(t, 23)
	await(t, "positions of the new topic to be committed", func() bool {
		offsets, err := r.admin.FetchOffsets(t.Context(), "g-"+r.topic)
		if err != nil {
			t.Fatal(err)
		}
		o, _ := offsets.Lookup(r.topic, 0)
		return o.At == 3
	})
	leave()
}

func TestRecordsDeletedBeforeTheGroupReadThemAreCountedOnceInTheLog(t *testing.T) {
	r := newRig(t, serverForTest(t))
	r.make(t, 1, nil)
	var j journal
	b := r.open(t, kafka.Config{Log: j.logger()})
	defer b.Close()
	s := newSink()
	group := "g-" + r.topic
	leave := r.join(t, b, group, s)
	r.publish(t, b, 1, 2)
	s.await(t, 2)
	leave()
	r.publish(t, b, 3, 9)
	if _, err := r.admin.DeleteRecords(t.Context(), offsets(r.topic, 7)); err != nil {
		t.Fatal(err)
	}
	leave = r.join(t, b, group, s)
	if all := s.await(t, 4); all[2].Event.AggregateSeq != 8 {
		t.Errorf("it goes on with event %d", all[2].Event.AggregateSeq)
	}
	leave()
	if lines := j.lines("deleted before the group had read them"); len(lines) != 1 || !strings.Contains(lines[0], "lost=5") {
		t.Errorf("the log says %q", lines)
	}
}

func offsets(topic string, at int64) kadm.Offsets {
	var o kadm.Offsets
	o.AddOffset(topic, 0, at, -1)
	return o
}

func TestTransactionsAreReadWhenTheyAreCommittedAndLagEndsAtZero(t *testing.T) {
	r := newRig(t, serverForTest(t))
	r.make(t, 1, nil)
	b := r.open(t, kafka.Config{})
	defer b.Close()
	raw, err := kgo.NewClient(kgo.SeedBrokers(strings.TrimPrefix(r.at, "kafka://")), kgo.TransactionalID("t-"+r.topic))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	for i, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit, kgo.TryAbort} {
		if err := raw.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for seq := range 3 {
			m := r.messageOf(fmt.Sprintf("k%d", i), int64(seq+1), 0)
			record := &kgo.Record{Topic: r.topic, Key: []byte(m.Event.AggregateID), Value: settle.AppendEnvelope(nil, m.Event)}
			if err := raw.ProduceSync(t.Context(), record).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		if err := raw.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	s := newSink()
	group := "g-" + r.topic
	leave := r.join(t, b, group, s)
	await(t, "the lag to end", func() bool { return len(s.records()) > 0 && r.lag(t, group) == 0 })
	leave()
	all := s.records()
	if len(all) != 6 {
		t.Fatalf("%d records were delivered, want the 6 that were committed", len(all))
	}
	for i, rec := range all {
		if want := fmt.Sprintf("k%d", i/3*2); rec.Key != want || rec.DecodeErr != nil {
			t.Errorf("record %d is of %s (%v), want %s", i, rec.Key, rec.DecodeErr, want)
		}
	}
}

func TestPartitionsThatAreAddedAreReadAndWritten(t *testing.T) {
	r := newRig(t, serverForTest(t))
	r.make(t, 1, nil)
	b := r.open(t, kafka.Config{RefreshEvery: 500 * time.Millisecond})
	defer b.Close()
	s := newSink()
	leave := r.join(t, b, "g-"+r.topic, s)
	r.publish(t, b, 1, 1)
	s.await(t, 1)
	if answers, err := r.admin.CreatePartitions(t.Context(), 5, r.topic); err != nil || answers.Error() != nil {
		t.Fatal(err, answers.Error())
	}
	n := 1
	await(t, "an event of another partition", func() bool {
		n++
		return publishOne(t, b, r.messageOf(fmt.Sprint("k", n), 1, 0)).At.Partition > 0
	})
	s.await(t, n)
	leave()
}

func TestForeignRecordsAreWholeOrDeadLettersAndBoundedByBytes(t *testing.T) {
	r := newRig(t, serverForTest(t))
	r.make(t, 1, map[string]*string{"max.message.bytes": new("8000000")})
	b := r.open(t, kafka.Config{})
	defer b.Close()
	write := func(record kgo.Record) {
		record.Topic = r.topic
		if err := r.raw.ProduceSync(t.Context(), &record).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	write(kgo.Record{Key: []byte("gone")}) // a tombstone
	write(kgo.Record{})                    // neither key nor value
	write(kgo.Record{Value: []byte("not an envelope")})
	for range 8 {
		write(kgo.Record{Key: []byte("k"), Value: []byte("x"), Headers: []kgo.RecordHeader{{Key: "giant", Value: make([]byte, 600_000)}, {Key: "none"}}})
	}
	s := newSink()
	leave := r.join(t, b, "g-"+r.topic, s)
	all := s.await(t, 11)
	leave()
	for i, rec := range all {
		switch {
		case rec.DecodeErr == nil:
			t.Errorf("record %d is taken for an event", i)
		case i < 2 && !strings.Contains(rec.DecodeErr.Error(), "tombstone"):
			t.Errorf("record %d without value: %v", i, rec.DecodeErr)
		case i >= 3 && len(rec.Headers["giant"]) != 600_000:
			t.Errorf("record %d lost its header", i)
		}
	}
	if all[0].Key != "gone" || all[0].Raw != nil {
		t.Errorf("the tombstone came as %+v", all[0])
	}
	if s.largest > 4 {
		t.Errorf("%d records, of which 8 have 600 kB of headers, were delivered at once", s.largest)
	}
}

func TestADeliveryThatOutlastsADrainIsCancelledAndComesAgainToTheNextOwner(t *testing.T) {
	r := newRig(t, serverForTest(t))
	r.make(t, 1, nil)
	cfg := kafka.Config{DrainTimeout: 100 * time.Millisecond}
	first, second := r.open(t, cfg), r.open(t, cfg)
	defer first.Close()
	defer second.Close()
	entered := make(chan struct{}, 1)
	var cancelled atomic.Int64
	slow := newSink()
	slow.hold = func(ctx context.Context, _ []settle.Record) error {
		select {
		case entered <- struct{}{}:
		default:
		}
		<-ctx.Done()
		cancelled.Add(1)
		return ctx.Err()
	}
	leave := r.join(t, first, "g-"+r.topic, slow)
	r.publish(t, second, 1, 5)
	<-entered
	leave()
	if cancelled.Load() != 1 {
		t.Errorf("the delivery was cancelled %d times", cancelled.Load())
	}
	s := newSink()
	leave = r.join(t, second, "g-"+r.topic, s)
	defer leave()
	if all := s.await(t, 5); len(all) != 5 {
		t.Errorf("the next owner got %d records", len(all))
	}
}
