package settle

import (
	"strings"
	"testing"
	"time"
)

func TestWhatABodyMayBeAWholeEnvelopeMayBeTooAndBothStayBelowAMebibyte(t *testing.T) {
	long := strings.Repeat(`"`, MaxField) // twice as long in an envelope
	now := time.Now()
	body := Event{ID: long, Type: long, AggregateType: long, AggregateID: long, BizKey: long, TraceID: long, CausationID: long, Supersedes: long, Topic: long,
		ContentType: ContentTypeJSON, OccurredAt: now, AppendedAt: now, Payload: []byte(`"` + strings.Repeat("x", MaxPayload-2) + `"`)}
	if err := body.Validate(); err != nil {
		t.Fatal(err)
	}
	whole := Event{ID: long, Type: long, AggregateID: long}
	if err := whole.SetEnvelope(AppendEnvelope(nil, &body)); err != nil {
		t.Fatal(err)
	}
	if err := whole.Validate(); err != nil {
		t.Errorf("the same event as a whole envelope: %v", err)
	}
	const mebibyte, room = 1 << 20, 256
	whole.Envelope = []byte(`{"eventId":"` + strings.Repeat("x", MaxEnvelope-14) + `"}`)
	whole.Headers = map[string]string{"h": strings.Repeat("v", MaxHeaders-1)}
	if err := whole.Validate(); err != nil {
		t.Fatal(err)
	}
	size := len(AppendEnvelope(nil, &whole)) + room
	for _, h := range WireHeaders(Message{ID: long, Event: &whole, Source: long, Epoch: 1 << 62}) {
		size += len(h[0]) + len(h[1]) + 4
	}
	if size > mebibyte {
		t.Errorf("the largest record has %d bytes", size)
	}
	whole.Envelope = append(whole.Envelope, ' ')
	if err := whole.Validate(); err == nil || !strings.Contains(err.Error(), "the limit is 937984") {
		t.Errorf("one byte more: %v", err)
	}
}

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
	} {
		e.ID, e.Type, e.AggregateID = "e-1", "x", "k"
		if err := e.Validate(); err == nil {
			t.Errorf("%.20s was found valid", e.Envelope)
		}
	}
}
