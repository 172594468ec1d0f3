package nats_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/nats"
)

func batchOf(prefix string, n int) []settle.Message {
	var batch []settle.Message
	for i := range n {
		batch = append(batch, message(fmt.Sprint(prefix, i), fmt.Sprint("k", i%7)))
	}
	return batch
}

func TestABatchSentTwiceComesBackMarkedAsDuplicateAtTheSamePlace(t *testing.T) {
	b := open(t, newRig(t).url)
	defer b.Close()
	batch := batchOf("e", 60)
	first := b.Publish(t.Context(), batch[:50])
	again := b.Publish(t.Context(), batch)
	for i, r := range again {
		switch {
		case r.Err != nil:
			t.Errorf("message %d: %v", i, r.Err)
		case i < 50 && (!r.Duplicate || r.At != first[i].At):
			t.Errorf("message %d is at %v, then %v, duplicate %v", i, first[i].At, r.At, r.Duplicate)
		case i >= 50 && r.Duplicate:
			t.Errorf("new message %d is called a duplicate", i)
		}
	}
}

func TestDuplicatesInABatchDoNotMakeAllOfItGoOneByOne(t *testing.T) {
	r := newRig(t)
	b := open(t, r.url)
	defer b.Close()
	batch := batchOf("e", 400)
	for i, got := range b.Publish(t.Context(), slices.Concat(batch[:8], batch[200:208])) { // too few for a batch
		if got.Err != nil {
			t.Fatalf("message %d: %v", i, got.Err)
		}
	}
	known := func(i int) bool { return i < 8 || i >= 200 && i < 208 }
	for i, got := range b.Publish(t.Context(), batch) {
		if got.Err != nil || got.Duplicate != known(i) {
			t.Errorf("message %d: %+v", i, got)
		}
	}
	stream, err := r.js(t).Stream(t.Context(), nats.StreamName(topicName))
	if err != nil {
		t.Fatal(err)
	}
	single := 0
	for seq := range stream.CachedInfo().State.LastSeq {
		m, err := stream.GetMsg(t.Context(), seq+1)
		if err != nil {
			t.Fatal(err)
		}
		if m.Header.Get("Nats-Batch-Id") == "" {
			single++
		}
	}
	if n := stream.CachedInfo().State.Msgs; n != 400 || single > 60 {
		t.Errorf("%d of %d went one by one", single, n)
	}
}

func TestAFullTopicIsATopicErrorAndDropsNothing(t *testing.T) {
	r := newRig(t)
	cfg := config()
	cfg.MaxBytes = 64 << 10
	b, err := nats.Open(t.Context(), r.url, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	held := 0
	for round := 0; ; round++ {
		full := false
		for _, got := range b.Publish(t.Context(), batchOf(fmt.Sprint("r", round, "-"), 40)) {
			if got.Err == nil {
				held++
			} else if full = true; settle.ScopeOf(got.Err) != settle.ScopeTopic {
				t.Fatalf("a full topic says %v", got.Err)
			}
		}
		if full {
			break
		}
	}
	if n := len(r.log(t)); n != held || n == 0 {
		t.Errorf("%d were acknowledged, %d are there", held, n)
	}
}

func TestASubscriberThatAnswersIsNotAStream(t *testing.T) {
	r := newRig(t)
	b := open(t, r.url)
	defer b.Close()
	if err := r.js(t).DeleteStream(t.Context(), nats.StreamName(topicName)); err != nil {
		t.Fatal(err)
	}
	nc, err := natsgo.Connect(r.url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for _, answer := range []string{"", "+OK", `{"stream":"other","seq":7}`, `{"stream":"suite"}`, `{"stream":"suite","seq":0}`} {
		sub, err := nc.Subscribe(topicName+".>", func(m *natsgo.Msg) { _ = m.Respond([]byte(answer)) })
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		for i, got := range b.Publish(t.Context(), batchOf("e"+answer, 1)) {
			if got.Err == nil {
				t.Errorf("message %d counts as held after the answer %q", i, answer)
			}
		}
		_ = sub.Unsubscribe()
	}
}

func TestAStreamThatIsGoneIsATopicErrorNotATimeOutForEver(t *testing.T) {
	r := newRig(t)
	b, err := nats.Open(t.Context(), r.url, nats.Config{Timeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := open(t, r.url).Close(); err != nil { // declares the topic
		t.Fatal(err)
	}
	if got := b.Publish(t.Context(), batchOf("e", 1))[0]; got.Err != nil {
		t.Fatal(got.Err)
	}
	nc, err := natsgo.Connect(r.url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Subscribe(">", func(*natsgo.Msg) {}); err != nil { // a bystander hides that nobody is responsible
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := r.js(t).DeleteStream(t.Context(), nats.StreamName(topicName)); err != nil {
		t.Fatal(err)
	}
	first := b.Publish(t.Context(), batchOf("f", 1))[0]
	second := b.Publish(t.Context(), batchOf("g", 1))[0]
	if first.Err == nil || settle.ScopeOf(second.Err) != settle.ScopeTopic {
		t.Errorf("got %v, then %v; want an error, then a topic error", first.Err, second.Err)
	}
}

func TestWithoutPermissionATopicIsATopicError(t *testing.T) {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		Users: []*server.User{
			{Username: "admin", Password: "admin"},
			{Username: "reader", Password: "reader", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: []string{"$JS.API.>"}},
			}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	defer s.Shutdown()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("no server")
	}
	at := "@" + s.Addr().String()
	if err := open(t, "nats://admin:admin"+at).Close(); err != nil {
		t.Fatal(err)
	}
	b, err := nats.Open(t.Context(), "nats://reader:reader"+at, nats.Config{Timeout: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, n := range []int{1, 30} {
		for i, got := range b.Publish(t.Context(), batchOf("e", n)) {
			if settle.ScopeOf(got.Err) != settle.ScopeTopic {
				t.Fatalf("message %d of %d: %v, want a topic error", i, n, got.Err)
			}
		}
	}
}

func TestABrokerThatIsAwayIsABrokerErrorAndSoon(t *testing.T) {
	r := newRig(t)
	b := open(t, r.url)
	defer b.Close()
	r.kill()
	began := time.Now()
	for i, got := range b.Publish(t.Context(), batchOf("e", 40)) {
		if got.Err == nil || settle.ScopeOf(got.Err) != settle.ScopeBroker {
			t.Fatalf("message %d: %v, want a broker error", i, got.Err)
		}
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("it took %v to say so", took)
	}
}

func TestARestartedBrokerTakesMessagesAgainWithinASecondOrSo(t *testing.T) {
	r := newRig(t)
	b := open(t, r.url)
	defer b.Close()
	if got := b.Publish(t.Context(), batchOf("e", 1))[0]; got.Err != nil {
		t.Fatal(got.Err)
	}
	r.restart(t)
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for n := 0; ; n++ {
		if got := b.Publish(ctx, batchOf(fmt.Sprint("f", n), 1))[0]; got.Err == nil {
			break
		} else if ctx.Err() != nil {
			t.Fatal(got.Err)
		}
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %v", took)
	} else {
		t.Logf("publishing again %v after the restart", took)
	}
}

func TestNothingOfASubscriptionIsLeftBehind(t *testing.T) {
	r := newRig(t)
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	b := open(t, r.url)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.Publish(ctx, batchOf("e", 30))
	var got atomic.Int64
	sink := sinkFunc(func(_ context.Context, _ settle.Partition, records []settle.Record) error {
		if got.Add(int64(len(records))) == 30 {
			cancel()
		}
		return nil
	})
	if err := b.Subscribe(ctx, settle.Subscription{Group: "g", Topics: []string{topicName}, Ownership: ownAll{}}, sink); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	nc, err := natsgo.Connect(r.url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	// One whose making was cut short, or whose deletion found a busy server, is
	// dropped by the server once it was unused for a while.
	for deadline := time.Now().Add(90 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		stream, err := js.Stream(t.Context(), nats.StreamName(topicName))
		if err != nil {
			t.Fatal(err)
		}
		n := stream.CachedInfo().State.Consumers
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d consumers are left", n)
		}
	}
}

func TestAConsumerThatTheServerDropsIsBuiltAnewFromTheFloor(t *testing.T) {
	r := newRig(t)
	b := open(t, r.url)
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	got := make(chan string, 100)
	sink := sinkFunc(func(_ context.Context, _ settle.Partition, records []settle.Record) error {
		for _, rec := range records {
			got <- rec.Event.ID
		}
		return nil
	})
	ended := make(chan error, 1)
	go func() {
		ended <- b.Subscribe(ctx, settle.Subscription{Group: "g", Topics: []string{topicName}, Ownership: ownAll{}}, sink)
	}()
	expect := func(id string) {
		t.Helper()
		select {
		case have := <-got:
			if have != id {
				t.Errorf("got %s, want %s", have, id)
			}
		case <-ctx.Done():
			t.Fatalf("%s is not delivered", id)
		}
	}
	js := r.js(t)
	for round := range 3 {
		id := fmt.Sprint("e", round)
		if got := b.Publish(ctx, []settle.Message{message(id, "k")})[0]; got.Err != nil {
			t.Fatal(got.Err)
		}
		expect(id)
		dropConsumers(t, js)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if len(got) > 0 {
		t.Errorf("%d records came again", len(got))
	}
}

func dropConsumers(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	stream, err := js.Stream(t.Context(), nats.StreamName(topicName))
	if err != nil {
		t.Fatal(err)
	}
	names := stream.ConsumerNames(t.Context())
	for name := range names.Name() {
		_ = stream.DeleteConsumer(t.Context(), name) // it may be gone by itself
	}
}
