package cloudevents

import (
	"testing"

	"github.com/settlemq/settle"
)

// Whatever a record holds, it is an event that can be sent on, or a reason.
func FuzzDecode(f *testing.F) {
	e := ourEvent()
	for _, b := range bindings() {
		for _, w := range []Wire{Envelope, Binary, Structured} {
			x := w.Encode(b, settle.Message{ID: e.ID, Event: e, Source: "orders"}, nil)
			f.Add(int(b), x.Value, x.ContentType, "ce_id", "1", "settleheaders", `{"a":"b"}`)
		}
	}
	f.Add(int(NATS), []byte(`{"a":1}`), "", "ce-specversion", "1.0", "subject", "%E2%82%AC")
	f.Fuzz(func(t *testing.T, binding int, value []byte, contentType, header, text, name, more string) {
		b := Binding(binding & 3)
		for _, marked := range []bool{false, true} {
			headers := map[string]string{header: text}
			if marked {
				headers = binaryHeaders(b.prefix(), name, more)
				headers[header] = text
			}
			r := settle.Record{Raw: value, Headers: headers}
			b.Read(&r, contentType)
			if (r.Event == nil) == (r.DecodeErr == nil) {
				t.Fatalf("event %v and reason %v", r.Event, r.DecodeErr)
			}
			if r.Event == nil {
				continue
			}
			if r.Event.ID == "" || r.Event.Type == "" || r.Event.AggregateID == "" {
				t.Fatalf("%+v", r.Event)
			}
			if _, err := settle.DecodeEnvelope(r.Raw, r.Headers); err != nil {
				t.Fatalf("what was an event is none to a store: %v; it was %+v", err, r.Event)
			}
			m := settle.Message{ID: "m", Event: r.Event}
			if m.Validate() != nil {
				continue // a field is longer than what we send
			}
			for _, w := range []Wire{Binary, Structured} {
				again, _, err := b.Decode(found(b, w.Encode(b, m, nil)))
				if err != nil {
					t.Fatalf("%s: %v; it was %+v", w, err, r.Event)
				}
				same(t, r.Event, again)
			}
		}
	})
}
