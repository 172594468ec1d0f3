package cloudevents

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	kafkasdk "github.com/cloudevents/sdk-go/protocol/kafka_sarama/v2"
	natssdk "github.com/cloudevents/sdk-go/protocol/nats_jetstream/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	natsgo "github.com/nats-io/nats.go"

	"github.com/settlemq/settle"
)

func ourEvent() *settle.Event {
	return &settle.Event{
		ID: "evt 1 100% €", Type: "order.created", AggregateType: "order", AggregateID: "o-1 😀", AggregateSeq: 12345678901, BizKey: "b-1",
		OccurredAt: time.Date(2026, 3, 4, 5, 6, 7, 123456789, time.UTC), AppendedAt: time.Date(2026, 3, 4, 5, 6, 8, 1000, time.UTC),
		TraceID: "flow-1", CausationID: "evt-0", Version: 3, Supersedes: "evt-s", ContentType: "application/json",
		Payload: []byte(`{"n": 12345678901234567890, "f":1.10, "text":"€"}`),
		Headers: map[string]string{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tenant": `a "b" %41 €`, "X-Odd": "kept"},
	}
}

// attributesWanted are those of ourEvent.
func attributesWanted(t *testing.T, e *event.Event, source string) {
	t.Helper()
	for name, c := range map[string][2]any{
		"id": {e.ID(), "evt 1 100% €"}, "type": {e.Type(), "order.created"}, "source": {e.Source(), source}, "subject": {e.Subject(), "o-1 😀"},
		"datacontenttype": {e.DataContentType(), "application/json"}, "specversion": {e.SpecVersion(), "1.0"},
		"aggregatetype": {e.Extensions()["aggregatetype"], "order"}, "aggregateseq": {e.Extensions()["aggregateseq"], "12345678901"},
		"partitionkey": {e.Extensions()["partitionkey"], "o-1 😀"}, "correlationid": {e.Extensions()["correlationid"], "flow-1"},
		"causationid": {e.Extensions()["causationid"], "evt-0"}, "tenant": {e.Extensions()["tenant"], `a "b" %41 €`},
		"traceparent": {e.Extensions()["traceparent"], "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
	} {
		if c[0] != c[1] {
			t.Errorf("%s is %v to the SDK, and was written as %v", name, c[0], c[1])
		}
	}
	if !e.Time().Equal(ourEvent().OccurredAt) {
		t.Errorf("time is %s to the SDK", e.Time())
	}
	if string(e.Data()) != string(ourEvent().Payload) {
		t.Errorf("data is %s to the SDK", e.Data())
	}
}

// messageOf gives what we wrote to the SDK's binding of a protocol. That of NATS
// leaves headers encoded, against the specification, so this decodes them for it.
func messageOf(t *testing.T, b Binding, x Encoded) binding.Message {
	header, values := natsgo.Header{}, map[string][]byte{}
	for _, p := range x.Headers {
		values[p[0]] = []byte(p[1])
		decoded, err := url.PathUnescape(p[1])
		if err != nil && strings.HasPrefix(p[0], "ce-") {
			t.Errorf("%s is %q, which can't be decoded", p[0], p[1])
		}
		header.Set(p[0], decoded)
	}
	if b == Kafka {
		return kafkasdk.NewMessage(x.Value, string(values["content-type"]), values)
	}
	return natssdk.NewMessage(&natsgo.Msg{Header: header, Data: x.Value})
}

func TestTheOfficialSDKReadsWhatWeWrite(t *testing.T) {
	for _, b := range []Binding{Kafka, NATS} {
		for _, w := range []Wire{Binary, Structured} {
			e := ourEvent()
			x := w.Encode(b, settle.Message{ID: e.ID, Event: e, Source: "order-service"}, nil)
			got, err := binding.ToEvent(context.Background(), messageOf(t, b, x))
			if err != nil {
				t.Fatalf("binding %d, %s: %v", b, w, err)
			}
			if err := got.Validate(); err != nil {
				t.Errorf("binding %d, %s: %v", b, w, err)
			}
			attributesWanted(t, got, "order-service")
		}
	}
}

func TestEverySourceIsOneToTheSDK(t *testing.T) {
	for _, source := range []string{"", "orders", "the orders, of €", "1:b", "https://orders.example/a?b#c", "%", "a:b c"} {
		e := ourEvent()
		x := Structured.Encode(Kafka, settle.Message{ID: e.ID, Event: e, Source: source}, nil)
		got, err := binding.ToEvent(context.Background(), messageOf(t, Kafka, x))
		if err != nil || got.Validate() != nil {
			t.Errorf("%q: %v, %v", source, err, got)
		}
	}
}

func sdkEvent(t *testing.T, contentType string, data any) event.Event {
	e := event.New()
	e.SetID(uuid)
	e.SetType("com.example.made")
	e.SetSource("https://made.example/by the SDK")
	e.SetSubject("s-1 €")
	e.SetTime(time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC))
	e.SetDataSchema("https://made.example/schema")
	e.SetExtension("comexampletext", `100% "€"`)
	e.SetExtension("comexamplenumber", 5)
	e.SetExtension("comexampleflag", true)
	e.SetExtension("partitionkey", "p-1")
	if err := e.SetData(contentType, data); err != nil {
		t.Fatal(err)
	}
	return e
}

func wantSDKs(t *testing.T, e *settle.Event, contentType, data string) {
	t.Helper()
	if e.ID != uuid || e.Type != "com.example.made" || e.AggregateID != "s-1 €" || e.ContentType != contentType || string(e.Payload) != data ||
		!e.OccurredAt.Equal(time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)) {
		t.Errorf("%+v, payload %q", e, e.Payload)
	}
	for name, value := range map[string]string{"comexampletext": `100% "€"`, "comexamplenumber": "5", "comexampleflag": "true", "partitionkey": "p-1", "dataschema": "https://made.example/schema"} {
		if e.Headers[name] != value {
			t.Errorf("extension %s is %q", name, e.Headers[name])
		}
	}
}

func TestWeReadWhatTheOfficialSDKWritesToKafka(t *testing.T) {
	for _, c := range []struct{ contentType, data string }{{"application/json", `{"a":1}`}, {"text/plain", "hello €"}, {"application/octet-stream", "\x00\xff"}} {
		in := sdkEvent(t, c.contentType, []byte(c.data))
		for name, ctx := range map[string]context.Context{
			"binary": binding.WithForceBinary(t.Context()), "structured": binding.WithForceStructured(t.Context()),
		} {
			var p sarama.ProducerMessage
			if err := kafkasdk.WriteProducerMessage(ctx, binding.ToMessage(&in), &p); err != nil {
				t.Fatal(err)
			}
			f := Found{Headers: map[string]string{}}
			f.Value, _ = p.Value.Encode()
			for _, h := range p.Headers {
				f.Headers[string(h.Key)] = string(h.Value)
			}
			got, is, err := Kafka.Decode(f)
			if err != nil || !is {
				t.Fatalf("%s, %s: %v", c.contentType, name, err)
			}
			wantSDKs(t, got, c.contentType, c.data)
		}
	}
}

func TestWeReadWhatTheOfficialSDKWritesToNATS(t *testing.T) {
	in := sdkEvent(t, "application/json", []byte(`{"a":1}`))
	var value strings.Builder
	if _, err := natssdk.WriteMsg(binding.WithForceStructured(t.Context()), binding.ToMessage(&in), writerOf{&value}); err != nil {
		t.Fatal(err)
	}
	got, is, err := NATS.Decode(Found{Value: []byte(value.String())}) // it sets no header
	if err != nil || !is {
		t.Fatal(is, err)
	}
	wantSDKs(t, got, "application/json", `{"a":1}`)

	// Nor does it encode them: a percent sign that begins no escape is itself.
	value.Reset()
	header, err := natssdk.WriteMsg(binding.WithForceBinary(t.Context()), binding.ToMessage(&in), writerOf{&value})
	if err != nil {
		t.Fatal(err)
	}
	headers := map[string]string{}
	for name, values := range header {
		headers[name] = values[0]
	}
	if got, is, err = NATS.Decode(Found{Value: []byte(value.String()), Headers: headers}); err != nil || !is {
		t.Fatal(is, err)
	}
	wantSDKs(t, got, "application/json", `{"a":1}`)
}
