package cloudevents

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/settlemq/settle"
)

func bindings() map[string]Binding {
	return map[string]Binding{"Kafka": Kafka, "AMQP": AMQP, "NATS": NATS, "RocketMQ": RocketMQ}
}

// found is what an adapter hands over of what it sent.
func found(b Binding, x Encoded) Found {
	f := Found{Value: x.Value, Headers: map[string]string{}}
	for _, p := range x.Headers {
		f.Headers[p[0]] = p[1]
	}
	if b == AMQP {
		f.ContentType = x.ContentType
	}
	return f
}

func text(limit int) *rapid.Generator[string] {
	return rapid.StringOfN(rapid.OneOf(rapid.RuneFrom([]rune(`aZ0 %"\<>&;,€😀é{}:=/`)), rapid.Rune()), 0, -1, limit).Filter(func(s string) bool {
		return checkText("", s) == nil
	})
}

func drawEvent(t *rapid.T) *settle.Event {
	at := func(name string) time.Time {
		if rapid.Bool().Draw(t, name+" is set") {
			return time.Unix(rapid.Int64Range(-62167219200, 253402300799).Draw(t, name), rapid.Int64Range(0, 999999999).Draw(t, name+" ns")).UTC()
		}
		return time.Time{}
	}
	payload := rapid.SampledFrom([]string{``, `{}`, `{"n":12345678901234567890, "f":1.10 , "b":1}`, `"text"`, `null`, " [1]\n", `"€ 😀 \u20ac"`}).Draw(t, "JSON")
	contentType := rapid.SampledFrom([]string{"", "application/json", "application/vnd.orders+json; charset=utf-8", "Application/CloudEvents+json"}).Draw(t, "content type")
	if rapid.Bool().Draw(t, "is binary") {
		payload, contentType = string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")), rapid.SampledFrom([]string{"text/plain", "application/octet-stream", "application/cloudevents+avro"}).Draw(t, "other type")
	}
	names := rapid.OneOf(rapid.StringMatching(`[a-z0-9]{1,24}`), rapid.StringMatching(`[!-9;-~]{1,12}`),
		rapid.SampledFrom([]string{"traceparent", "Traceparent", "tracestate", "dataschema", "id", "data", "ce_id", "ce-type", "cloudEvents:id", "content-type", "Content-Type", "settlewire", "version", "correlationid", "CE_contenttype", "contenttype"}))
	headers := rapid.MapOfN(names, text(12), 0, 5).Draw(t, "headers")
	maps.DeleteFunc(headers, func(name, _ string) bool {
		return isSettles(name) || settle.Message{ID: "x", Event: &settle.Event{ID: "x", Type: "x", AggregateID: "x", Headers: map[string]string{name: ""}, Payload: []byte("1")}}.Validate() != nil
	})
	if len(headers) == 0 {
		headers = nil
	}
	full := text(24).Filter(func(s string) bool { return s != "" })
	return &settle.Event{
		ID: full.Draw(t, "id"), Type: full.Draw(t, "type"), AggregateID: full.Draw(t, "aggregate id"),
		AggregateType: text(24).Draw(t, "aggregate type"), AggregateSeq: rapid.Int64Min(0).Draw(t, "seq"), BizKey: text(24).Draw(t, "biz key"),
		OccurredAt: at("occurred"), AppendedAt: at("appended"), TraceID: text(24).Draw(t, "trace"), CausationID: text(24).Draw(t, "causation"),
		Version: rapid.IntRange(0, 1<<31-1).Draw(t, "version"), ContentType: contentType, Payload: []byte(payload), Headers: headers, Supersedes: text(24).Draw(t, "supersedes"),
	}
}

// same compares what travels, with the defaults that the envelope gives, too.
func same(t interface {
	Errorf(string, ...any)
}, want, got *settle.Event) {
	w := *want
	w.Version, w.ContentType = max(w.Version, 1), contentTypeOf(want)
	if string(w.Payload) != string(got.Payload) {
		t.Errorf("payload %q became %q", w.Payload, got.Payload)
	}
	w.Payload, w.Topic = nil, ""
	g := *got
	g.Payload = nil
	a, _ := json.Marshal(w)
	b, _ := json.Marshal(g)
	if string(a) != string(b) || len(w.Headers) != len(g.Headers) {
		t.Errorf("what was written and what was read differ:\n%s\n%s", a, b)
	}
}

func TestEveryFieldOfAnEventComesBackOverEveryBindingInBothModes(t *testing.T) {
	for name, b := range bindings() {
		for _, w := range []Wire{Binary, Structured, Envelope} {
			t.Run(name+"/"+w.String(), rapid.MakeCheck(func(t *rapid.T) {
				e := drawEvent(t)
				if w == Envelope { // which keeps no white space around its payload, and takes null for none
					e.Headers = nil
					if p := strings.TrimSpace(string(e.Payload)); settle.IsJSON(e.ContentType) && (p == "null" || p != string(e.Payload)) {
						e.Payload = nil
					}
				}
				m := settle.Message{ID: e.ID, Event: e, Epoch: 3, Source: text(12).Draw(t, "source")}
				if m.Validate() != nil {
					t.Skip("no event that is sent")
				}
				got, is, err := b.Decode(found(b, w.Encode(b, m, nil)))
				if err != nil {
					t.Fatalf("decode: %v", err)
				}
				if is != (w != Envelope) {
					t.Fatalf("that it is a CloudEvent is %v", is)
				}
				same(t, e, got)
			}))
		}
	}
}

// A store decodes again what the adapter handed on, by Settle's own envelope.
func TestARecordThatWasACloudEventIsAnEnvelopeAfterwards(t *testing.T) {
	e := &settle.Event{ID: "e-1", Type: "order.created", AggregateID: "o 1 €", AggregateSeq: 4, BizKey: "b", Version: 2, Payload: []byte(`{"a": 1.10}`), Headers: map[string]string{"tenant": "x", "X-Odd": "y"}}
	for name, b := range bindings() {
		for _, w := range []Wire{Binary, Structured} {
			f := found(b, w.Encode(b, settle.Message{ID: "e-1", Event: e, Epoch: 7, Source: "orders"}, nil))
			r := settle.Record{Raw: f.Value, Headers: f.Headers}
			b.Read(&r, f.ContentType)
			if r.DecodeErr != nil {
				t.Fatalf("%s %s: %v", name, w, r.DecodeErr)
			}
			same(t, e, r.Event)
			again, err := settle.DecodeEnvelope(r.Raw, r.Headers)
			if err != nil {
				t.Fatalf("%s %s: %v", name, w, err)
			}
			same(t, e, again)
			if r.Headers[settle.HeaderProducer] != "orders" || r.Headers[settle.HeaderEpoch] != "7" {
				t.Errorf("%s %s: Settle's headers became %v", name, w, r.Headers)
			}
		}
	}
}

func TestAnEventThatIsAWholeEnvelopeIsUnpacked(t *testing.T) {
	whole := func(value string) *settle.Event {
		e := &settle.Event{ID: "e-1", Type: "order.created", AggregateID: "o-1", Headers: map[string]string{"tenant": "x"}}
		if err := e.SetEnvelope([]byte(value)); err != nil {
			t.Fatal(err)
		}
		return e
	}
	for value, payload := range map[string]string{
		`{"eventId":"e-1","eventType":"order.created","aggregateId":"o-1","version":3,"payload":{"a":1}}`: `{"a":1}`,
		`{"of":"another kind"}`: `{"of":"another kind"}`,
	} {
		got, _, err := Kafka.Decode(found(Kafka, Binary.Encode(Kafka, settle.Message{ID: "e-1", Event: whole(value)}, nil)))
		if err != nil || string(got.Payload) != payload || got.ID != "e-1" || got.Headers["tenant"] != "x" {
			t.Errorf("%s: %+v, %v", value, got, err)
		}
	}
}

// Found by FuzzDecode: a reader of the structured mode refuses a value that is
// not UTF-8, or replaces its bytes.
func TestJSONWithBytesThatAreNotUTF8ComesBackByteForByte(t *testing.T) {
	e := &settle.Event{ID: "e-1", Type: "t", AggregateID: "o-1", Payload: []byte("{\"a\":\"\xbc\"}")}
	for _, w := range []Wire{Binary, Structured} {
		got, _, err := Kafka.Decode(found(Kafka, w.Encode(Kafka, settle.Message{ID: "e-1", Event: e}, nil)))
		if err != nil || string(got.Payload) != string(e.Payload) {
			t.Errorf("%s: %+v, %v", w, got, err)
		}
	}
}
