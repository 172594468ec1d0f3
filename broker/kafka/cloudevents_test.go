package kafka_test

import (
	"testing"

	"github.com/IBM/sarama"
	kafkasdk "github.com/cloudevents/sdk-go/protocol/kafka_sarama/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/cloudevents"
)

func TestKafkaCarriesCloudEventsBothWays(t *testing.T) {
	for name, server := range map[string]func(testing.TB) string{
		"a fake": func(t testing.TB) string { return newFake(t).url() }, "a server": serverForTest,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, server(t))
			sent := map[string]*settle.Event{}
			for _, w := range []cloudevents.Wire{cloudevents.Envelope, cloudevents.Binary, cloudevents.Structured} {
				plain := r.at
				r.at += "?wire=" + w.String()
				b := r.open(t, r.config())
				r.at = plain
				e := &settle.Event{ID: "e " + w.String() + " €", Type: "order.created", AggregateID: "o-1", AggregateSeq: 4, Topic: r.topic, Version: 2, Payload: []byte(`{"n": 1.10}`), Headers: map[string]string{"tenant": "x", "X-Odd": "y"}}
				if got := b.Publish(t.Context(), []settle.Message{{ID: e.ID, Event: e, Source: "orders"}}); got[0].Err != nil {
					t.Fatal(got[0].Err)
				}
				if err := b.Close(); err != nil {
					t.Fatal(err)
				}
				sent[e.ID] = e
			}
			in := event.New()
			in.SetID("made-1")
			in.SetType("com.example.made")
			in.SetSource("/made")
			in.SetSubject("s €")
			in.SetExtension("comexample", "kept")
			if err := in.SetData("application/json", []byte(`{"a":1}`)); err != nil {
				t.Fatal(err)
			}
			var out sarama.ProducerMessage
			if err := kafkasdk.WriteProducerMessage(binding.WithForceBinary(t.Context()), binding.ToMessage(&in), &out); err != nil {
				t.Fatal(err)
			}
			headers := map[string]string{}
			for _, h := range out.Headers {
				headers[string(h.Key)] = string(h.Value)
			}
			value, _ := out.Value.Encode()
			r.foreign(t, "k", value, headers)
			sdkReads(t, r, sent)

			s := newSink()
			b := r.open(t, r.config())
			defer func() { _ = b.Close() }()
			defer r.join(t, b, "group-"+settle.NewID(), s)()
			for _, found := range s.await(t, len(sent)+1) {
				if found.DecodeErr != nil {
					t.Fatal(found.DecodeErr)
				}
				e := found.Event
				if want := sent[e.ID]; want != nil {
					if string(e.Payload) != string(want.Payload) || e.AggregateSeq != 4 || e.Version != 2 || e.Headers["X-Odd"] != "y" || e.Headers["tenant"] != "x" || found.Headers[settle.HeaderProducer] != "orders" {
						t.Errorf("%+v, headers %v", e, found.Headers)
					}
				} else if e.ID != "made-1@/made" || e.AggregateID != "s €" || e.Headers["comexample"] != "kept" || string(e.Payload) != `{"a":1}` {
					t.Errorf("%+v", e)
				}
			}
		})
	}
}

// sdkReads reads the topic as the SDK's consumers do.
func sdkReads(t *testing.T, r *rig, sent map[string]*settle.Event) {
	t.Helper()
	reader, err := kgo.NewClient(kgo.SeedBrokers(r.raw.OptValue(kgo.SeedBrokers).([]string)...), kgo.ConsumeTopics(r.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for left := len(sent) + 1; left > 0; {
		for _, rec := range reader.PollFetches(t.Context()).Records() {
			left--
			headers := map[string][]byte{}
			for _, h := range rec.Headers {
				headers[h.Key] = h.Value
			}
			m := kafkasdk.NewMessage(rec.Value, string(headers["content-type"]), headers)
			if m.ReadEncoding() == binding.EncodingUnknown {
				continue // Settle's envelope
			}
			e, err := binding.ToEvent(t.Context(), m)
			if err != nil || e.Validate() != nil {
				t.Fatal(err, e)
			}
			if want := sent[e.ID()]; want != nil && (string(e.Data()) != string(want.Payload) || e.Subject() != "o-1" || e.Source() != "orders" || e.Extensions()["tenant"] != "x" || string(rec.Key) != "o-1") {
				t.Errorf("to the SDK it is %s", e)
			}
		}
	}
}
