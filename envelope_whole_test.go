package settle

import (
	"testing"
	"time"
)

func TestAWholeEnvelopeTravelsByteForByteAndTellsWhatTheColumnsDoNot(t *testing.T) {
	for _, text := range []string{
		`{"bizKey": "B-1", "eventId": "e-1", "payload": {"n": 1.10}, "traceId": "t-1", "version": 3, "eventType": "order.created", "occurredAt": "2026-01-02T03:04:05Z", "aggregateId": "o-1"}`,
		` {"eventId":"e-1","bizKey":"B-1","traceId":"t-1","version":3,"occurredAt":"2026-01-02T03:04:05Z","\u006eew":[1,{"a":null}],"payload":null}`,
	} {
		e := Event{ID: "e-1", Type: "order.created", AggregateID: "o-1", BizKey: "o-1", Version: 1}
		if err := e.SetEnvelope([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := e.Validate(); err != nil {
			t.Fatal(err)
		}
		if got := string(AppendEnvelope(nil, &e)); got != text {
			t.Errorf("it travels as %s", got)
		}
		if e.BizKey != "B-1" || e.TraceID != "t-1" || e.Version != 3 || !e.OccurredAt.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
			t.Errorf("it says %+v", e)
		}
	}
}

func TestAFieldOfAnotherKindInAWholeEnvelopeIsItsProducersBusiness(t *testing.T) {
	const text = `{"eventId":7,"version":"two","occurredAt":[2026,1,2],"traceId":{},"payload":1}`
	e := Event{ID: "e-1", Type: "x", AggregateID: "k", Version: 1}
	if err := e.SetEnvelope([]byte(text)); err != nil || string(AppendEnvelope(nil, &e)) != text || e.Version != 1 || e.TraceID != "" || !e.OccurredAt.IsZero() {
		t.Errorf("%v, %+v", err, e)
	}
}

func TestWhatIsNoEnvelopeOfTheEventIsRefused(t *testing.T) {
	for _, text := range []string{``, `null`, `[]`, `"x"`, `{"eventId":"e-1"`, `{"eventId":"e-1"} x`, `{"eventId":"e-2"}`, `{"eventId": "e-2", "payload": {"a": 1}}`} {
		e := Event{ID: "e-1", Type: "x", AggregateID: "k", Payload: []byte("1")}
		if err := e.SetEnvelope([]byte(text)); err == nil || e.Envelope != nil || string(e.Payload) != "1" {
			t.Errorf("%s was taken: %v", text, err)
		}
	}
	for _, e := range []Event{
		{Envelope: []byte(`[]`)},
		{Envelope: []byte(`  `)},
		{Envelope: []byte(`{`)},
		{Envelope: []byte(`{}`), Payload: []byte(`1`)},
		{Envelope: make([]byte, MaxPayload+1)},
	} {
		e.ID, e.Type, e.AggregateID = "e-1", "x", "k"
		if err := e.Validate(); err == nil {
			t.Errorf("%.20s was found valid", e.Envelope)
		}
	}
}
