package cloudevents

import (
	"testing"

	"github.com/settlemq/settle"
)

// common is an event as most are: short texts in ASCII, and one header.
func common() settle.Message {
	e := ourEvent()
	e.ID, e.AggregateID, e.Headers = "0190163d-8694-739b-aea5-966c26f8ad91", "order-1", map[string]string{"traceparent": e.Headers["traceparent"]}
	return settle.Message{ID: e.ID, Event: e, Epoch: 1, Source: "orders"}
}

func BenchmarkEncode(b *testing.B) {
	m := common()
	for _, w := range []Wire{Envelope, Binary, Structured} {
		b.Run(w.String(), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w.Encode(Kafka, m, nil)
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	m := common()
	for _, w := range []Wire{Envelope, Binary, Structured} {
		b.Run(w.String(), func(b *testing.B) {
			f := found(Kafka, w.Encode(Kafka, m, nil))
			b.ReportAllocs()
			for b.Loop() {
				r := settle.Record{Raw: f.Value, Headers: f.Headers}
				Kafka.Read(&r, "")
				if r.DecodeErr != nil {
					b.Fatal(r.DecodeErr)
				}
			}
		})
	}
}
