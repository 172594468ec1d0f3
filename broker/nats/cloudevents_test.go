package nats_test

import (
	"context"
	"io"
	"strconv"
	"strings"
	"testing"

	natssdk "github.com/cloudevents/sdk-go/protocol/nats_jetstream/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	natsgo "github.com/nats-io/nats.go"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/cloudevents"
	"github.com/settlemq/settle/broker/nats"
)

// copied is what the SDK writes a value to.
type copied struct{ strings.Builder }

func (c *copied) ReadFrom(r io.Reader) (int64, error) { return io.Copy(&c.Builder, r) }

func TestJetStreamCarriesCloudEventsBothWays(t *testing.T) {
	r := newRig(t)
	sent := map[string]*settle.Event{}
	for _, w := range []cloudevents.Wire{cloudevents.Envelope, cloudevents.Binary, cloudevents.Structured} {
		cfg := config()
		cfg.Wire = w
		b, err := nats.Open(t.Context(), r.url, cfg)
		if err != nil {
			t.Fatal(err)
		}
		for n := range 2 { // two are a batch
			e := &settle.Event{ID: "e-" + w.String() + strconv.Itoa(n), Type: "order.created", AggregateID: "o-1", AggregateSeq: 4, Topic: topicName, Version: 2, Payload: []byte(`{"n": 1.10}`), Headers: map[string]string{"tenant": "x", "X-Odd": "€ y"}}
			sent[e.ID] = e
			if got := b.Publish(t.Context(), []settle.Message{{ID: e.ID, Event: e, Source: "orders"}}); got[0].Err != nil {
				t.Fatal(got[0].Err)
			}
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	sdkWrites(t, r)
	sdkReads(t, r, sent)

	b := open(t, r.url)
	defer func() { _ = b.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	found := make(chan settle.Record, len(sent)+2)
	ended := make(chan error, 1)
	go func() {
		ended <- b.Subscribe(ctx, settle.Subscription{Group: "g", Topics: []string{topicName}, Ownership: ownAll{}}, sinkFunc(func(_ context.Context, _ settle.Partition, records []settle.Record) error {
			for _, r := range records {
				found <- r
			}
			return nil
		}))
	}()
	for range len(sent) + 2 {
		got := <-found
		if got.DecodeErr != nil {
			t.Fatal(got.DecodeErr)
		}
		e := got.Event
		if want := sent[e.ID]; want != nil {
			if string(e.Payload) != string(want.Payload) || e.AggregateSeq != 4 || e.Version != 2 || e.Headers["X-Odd"] != "€ y" || e.Headers["tenant"] != "x" || got.Headers[settle.HeaderProducer] != "orders" {
				t.Errorf("%+v, headers %v", e, got.Headers)
			}
		} else if e.ID != "made-1@/made" || e.AggregateID != "s €" || e.Headers["comexample"] != "kept" || string(e.Payload) != `{"a":1}` {
			t.Errorf("%+v", e)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// sdkWrites stores an event in each mode, as the SDK's producers do.
func sdkWrites(t *testing.T, r *rig) {
	t.Helper()
	in := event.New()
	in.SetID("made-1")
	in.SetType("com.example.made")
	in.SetSource("/made")
	in.SetSubject("s €")
	in.SetExtension("comexample", "kept")
	if err := in.SetData("application/json", []byte(`{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	for _, ctx := range []context.Context{binding.WithForceBinary(t.Context()), binding.WithForceStructured(t.Context())} {
		var value copied
		header, err := natssdk.WriteMsg(ctx, binding.ToMessage(&in), &value)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.js(t).PublishMsg(t.Context(), &natsgo.Msg{Subject: topicName + ".3", Header: header, Data: []byte(value.String())}); err != nil {
			t.Fatal(err)
		}
	}
}

// sdkReads reads the stream as the SDK's consumers do.
func sdkReads(t *testing.T, r *rig, sent map[string]*settle.Event) {
	t.Helper()
	stream, err := r.js(t).Stream(t.Context(), nats.StreamName(topicName))
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for seq := range uint64(len(sent) + 2) {
		m, err := stream.GetMsg(t.Context(), seq+1)
		if err != nil {
			t.Fatal(err)
		}
		e, err := binding.ToEvent(t.Context(), natssdk.NewMessage(&natsgo.Msg{Header: m.Header, Data: m.Data}))
		if err != nil || sent[e.ID()] == nil {
			continue // Settle's envelope, or the SDK's own
		}
		read++
		if e.Validate() != nil || string(e.Data()) != string(sent[e.ID()].Payload) || e.Subject() != "o-1" || e.Source() != "orders" || e.Extensions()["tenant"] != "x" {
			t.Errorf("to the SDK it is %s", e)
		}
	}
	if want := len(sent) * 2 / 3; read != want {
		t.Errorf("the SDK reads %d of %d events", read, want)
	}
}
