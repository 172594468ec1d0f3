package settle_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)

func created() *settle.Event {
	return &settle.Event{Type: "order.created", AggregateType: "order", AggregateID: "o-1", AggregateSeq: 1, Payload: []byte(`{"total":1.10}`)}
}

func TestPrepareFillsWhatACallerMayLeaveEmpty(t *testing.T) {
	e := created()
	if err := e.Prepare(now); err != nil {
		t.Fatal(err)
	}
	if e.ID == "" || e.BizKey != "o-1" || !e.OccurredAt.Equal(now) || !e.AppendedAt.Equal(now) || e.Version != 1 || e.Topic != settle.DefaultTopic || e.ContentType != settle.ContentTypeJSON {
		t.Errorf("prepared event is %+v", e)
	}
}

func TestAnEventThatCannotBeStoredIsRefusedByItsField(t *testing.T) {
	for name, c := range map[string]struct {
		field string
		spoil func(*settle.Event)
	}{
		"no type":                     {"type", func(e *settle.Event) { e.Type = "" }},
		"no key":                      {"aggregateId", func(e *settle.Event) { e.AggregateID = "" }},
		"key too long":                {"aggregateId", func(e *settle.Event) { e.AggregateID = strings.Repeat("k", settle.MaxField+1) }},
		"key with a newline":          {"aggregateId", func(e *settle.Event) { e.AggregateID = "a\nb" }},
		"key that is not UTF-8":       {"aggregateId", func(e *settle.Event) { e.AggregateID = "\xff" }},
		"invalid JSON":                {"payload", func(e *settle.Event) { e.Payload = []byte(`{"a":`) }},
		"no payload where JSON":       {"payload", func(e *settle.Event) { e.Payload = nil }},
		"payload over the limit":      {"payload", func(e *settle.Event) { e.Payload = bytes.Repeat([]byte("1"), settle.MaxPayload+1) }},
		"negative sequence":           {"aggregateSeq", func(e *settle.Event) { e.AggregateSeq = -1 }},
		"negative version":            {"version", func(e *settle.Event) { e.Version = -1 }},
		"delayed with a sequence":     {"notBefore", func(e *settle.Event) { e.NotBefore = now }},
		"header name with a colon":    {"headers", func(e *settle.Event) { e.Headers = map[string]string{"a:b": "1"} }},
		"header value with a newline": {"headers", func(e *settle.Event) { e.Headers = map[string]string{"a": "1\r\nb: 2"} }},
		"headers over the limit":      {"headers", func(e *settle.Event) { e.Headers = map[string]string{"a": strings.Repeat("x", settle.MaxHeaders)} }},
	} {
		t.Run(name, func(t *testing.T) {
			e := created()
			c.spoil(e)
			var invalid *settle.InvalidEventError
			if err := e.Prepare(now); !errors.As(err, &invalid) || invalid.Field != c.field {
				t.Errorf("Prepare says %v, want an error of %s", err, c.field)
			}
		})
	}
}

func TestIDsOfOneProcessRise(t *testing.T) {
	last := ""
	for range 10_000 {
		id := settle.NewID()
		if id <= last {
			t.Fatalf("%s after %s", id, last)
		}
		last = id
	}
}

func TestErrorsKeepTheirMeaningWhenWrapped(t *testing.T) {
	cause := errors.New("no such sku")
	if err := fmt.Errorf("handle: %w", settle.Permanent(cause)); !settle.IsPermanent(err) || !errors.Is(err, cause) {
		t.Errorf("%v lost its mark or its cause", err)
	}
	if err := fmt.Errorf("handle: %w", settle.Unavailable(cause)); !settle.IsUnavailable(err) || settle.IsPermanent(err) {
		t.Errorf("%v is not (only) unavailable", err)
	}
	if r, ok := settle.Rejected(fmt.Errorf("handle: %w", settle.Reject("sold out"))); !ok || r.Reason != "sold out" {
		t.Errorf("rejection is %v, %v", r, ok)
	}
	if settle.Permanent(nil) != nil || settle.Unavailable(nil) != nil {
		t.Error("marking nil makes an error")
	}
	if s := settle.ScopeOf(fmt.Errorf("x: %w", &settle.PublishError{Scope: settle.ScopeRecord, Err: cause})); s != settle.ScopeRecord {
		t.Errorf("scope is %v", s)
	}
	if s := settle.ScopeOf(cause); s != settle.ScopeBroker {
		t.Errorf("an unclassified error has scope %v, want broker: unknown outcome", s)
	}
}

func TestBackoffDoublesUpToItsCapAndEnds(t *testing.T) {
	b := settle.Backoff{Jitter: -1, Attempts: 12}
	want := []int{2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300}
	for i, seconds := range want {
		wait, again := b.Next("id", i+1, nil)
		if !again || wait != time.Duration(seconds)*time.Second {
			t.Errorf("after attempt %d: %v %v, want %ds", i+1, wait, again, seconds)
		}
	}
	if _, again := b.Next("id", 12, nil); again {
		t.Error("attempt 12 of 12 is followed by another")
	}
	if _, again := (settle.Backoff{Only: func(error) bool { return false }}).Next("id", 1, errors.New("x")); again {
		t.Error("an error outside the whitelist is retried")
	}
}

func TestBackoffJitterStaysInBoundsSpreadsAndRepeats(t *testing.T) {
	b := settle.Backoff{Jitter: 0.5}
	seen := map[time.Duration]bool{}
	for i := range 200 {
		id := fmt.Sprint(i)
		wait, _ := b.Next(id, 3, nil)
		if again, _ := b.Next(id, 3, nil); again != wait {
			t.Fatalf("two answers for one attempt: %v and %v", wait, again)
		}
		if wait > 8*time.Second || wait < 4*time.Second {
			t.Fatalf("wait %v is outside 4 to 8 s", wait)
		}
		seen[wait] = true
	}
	if len(seen) < 190 {
		t.Errorf("200 ids share %d waits", len(seen))
	}
}

func TestAnEnvelopeComesBackAsItWas(t *testing.T) {
	payloads := map[string]struct{ contentType, payload string }{
		"20-digit integers and 1.10 stay": {"", `{"n":12345678901234567890, "p":1.10,"b":1,"a":2}`},
		"null":                            {"", `null`},
		"json suffix":                     {"application/vnd.x+json; charset=utf-8", `[1]`},
		"text":                            {"text/plain", "grüße € 🙂\n\x00\xff"},
		"empty binary":                    {"application/octet-stream", ""},
	}
	for name, c := range payloads {
		t.Run(name, func(t *testing.T) {
			e := created()
			e.ContentType, e.Payload = c.contentType, []byte(c.payload)
			e.AggregateID, e.TraceID, e.CausationID, e.Supersedes = `key "€" \ 🙂`, "t", "c", "s"
			if err := e.Prepare(now); err != nil {
				t.Fatal(err)
			}
			value := settle.AppendEnvelope(nil, e)
			if !json.Valid(value) {
				t.Fatalf("envelope is not JSON: %s", value)
			}
			got, err := settle.DecodeEnvelope(value, map[string]string{"x": "1", settle.HeaderEventID: e.ID})
			if err != nil {
				t.Fatal(err)
			}
			payload := string(got.Payload)
			if want := c.payload; payload != want && !(want == "null" && payload == "") {
				t.Errorf("payload %q came back as %q", want, payload)
			}
			if got.ID != e.ID || got.AggregateID != e.AggregateID || got.AggregateSeq != 1 || !got.AppendedAt.Equal(now) || got.TraceID != "t" || got.CausationID != "c" || got.Supersedes != "s" || got.Version != 1 || got.ContentType != e.ContentType {
				t.Errorf("%+v came back as %+v", e, got)
			}
			if len(got.Headers) != 1 || got.Headers["x"] != "1" {
				t.Errorf("headers are %v, want the event's own alone", got.Headers)
			}
		})
	}
}

func TestForeignBytesAreAnErrorNotAPanic(t *testing.T) {
	for _, value := range []string{"", "{", `{"eventId":"a","eventType":"b"`, "null", "[]", `"x"`, "\x00\x01", `{"eventId":1}`, `{"eventId":"a"}`,
		`{"eventId":"a","eventType":"b","aggregateId":"c","version":-1}`, `{"eventId":"a","eventType":"b","aggregateId":"c","payloadBase64":"!"}`} {
		if e, err := settle.DecodeEnvelope([]byte(value), nil); err == nil {
			t.Errorf("%q decodes to %+v", value, e)
		}
	}
}

func FuzzDecodeEnvelope(f *testing.F) {
	e := created()
	_ = e.Prepare(now)
	f.Add(settle.AppendEnvelope(nil, e))
	f.Add([]byte(`{"eventId":"a","eventType":"b","aggregateId":"c","payload":[1, 2],"extra":{}}`))
	f.Add([]byte(`{"eventId":"\u00e9","eventType":"b","aggregateId":"c","version":2,"payloadBase64":"AAE="}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		// A leading space turns the scanner away: encoding/json reads the same.
		slow, slowErr := settle.DecodeEnvelope(append([]byte(" "), value...), nil)
		e, err := settle.DecodeEnvelope(value, nil)
		if (err == nil) != (slowErr == nil) || fmt.Sprint(e) != fmt.Sprint(slow) {
			t.Fatalf("the scanner reads %+v, %v; encoding/json %+v, %v", e, err, slow, slowErr)
		}
		if err != nil {
			return
		}
		again, err := settle.DecodeEnvelope(settle.AppendEnvelope(nil, e), nil)
		if err != nil {
			t.Fatalf("what was decoded can't be encoded and decoded again: %v", err)
		}
		if again.ID != e.ID || again.Type != e.Type || again.AggregateID != e.AggregateID || !bytes.Equal(compact(again.Payload), compact(e.Payload)) {
			t.Fatalf("%+v became %+v", e, again)
		}
	})
}

func compact(payload []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, payload) != nil {
		return payload
	}
	return b.Bytes()
}

func TestWireHeadersRouteWithoutParsing(t *testing.T) {
	e := created()
	e.Headers = map[string]string{"traceparent": "00-x", "Settle-Event-Id": "forged"}
	_ = e.Prepare(now)
	got := map[string]string{}
	for _, h := range settle.WireHeaders(settle.Message{ID: e.ID, Event: e, Epoch: 3, Source: "order"}) {
		got[h[0]] = h[1]
	}
	want := map[string]string{settle.HeaderEventID: e.ID, settle.HeaderEventType: "order.created", settle.HeaderAggregateID: "o-1", settle.HeaderAggregateSeq: "1",
		settle.HeaderAppendedAt: fmt.Sprint(now.UnixMicro()), settle.HeaderProducer: "order", settle.HeaderEpoch: "3", "traceparent": "00-x"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("headers are\n%v, want\n%v", got, want)
	}
}

func BenchmarkDecodeEnvelope(b *testing.B) {
	e := created()
	e.Payload = []byte(`{"order_id":"o-1","lines":[{"sku":"a-1","quantity":3},{"sku":"b-2","quantity":1}],"amount_cents":123456,"note":"` + strings.Repeat("x", 120) + `"}`)
	_ = e.Prepare(now)
	value := settle.AppendEnvelope(nil, e)
	b.Run("scanner", func(b *testing.B) {
		for b.Loop() {
			_, _ = settle.DecodeEnvelope(value, nil)
		}
	})
	spaced := append([]byte(" "), value...)
	b.Run("encoding-json", func(b *testing.B) {
		for b.Loop() {
			_, _ = settle.DecodeEnvelope(spaced, nil)
		}
	})
}
