package settle_test

import (
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

// mebibyte is what brokers take by default.
const mebibyte = 1 << 20

// record is the size of what travels of an event.
func record(e *settle.Event) int {
	size := len(settle.AppendEnvelope(nil, e))
	for _, h := range settle.WireHeaders(settle.Message{ID: e.ID, Event: e, Source: e.AggregateType, Epoch: 1 << 40}) {
		size += len(h[0]) + len(h[1])
	}
	return size
}

// filled is an event with a payload of so many bytes, whose other fields are as
// long as they may be, or short.
func filled(t *testing.T, contentType string, payload int, long bool) *settle.Event {
	t.Helper()
	e := &settle.Event{ID: settle.NewID(), Type: "order.created", AggregateID: "o-1", ContentType: contentType, Payload: []byte(strings.Repeat("7", payload))}
	if long {
		field := strings.Repeat("f", settle.MaxField)
		e.Type, e.AggregateType, e.AggregateID, e.BizKey, e.TraceID, e.CausationID, e.Topic, e.Supersedes = field, field, field, "", field, field, field, field
		e.BizKey = "b" + field[1:]
		e.Headers = map[string]string{"h": strings.Repeat("v", settle.MaxHeaders-1)}
	}
	if err := e.Prepare(time.Now()); err != nil {
		t.Fatal(err)
	}
	return e
}

// The figures are those of docs/serve.md.
func TestWhatTheDocumentsSayOfSizesIsSo(t *testing.T) {
	const binary = "application/octet-stream"
	for _, c := range []struct {
		what        string
		contentType string
		payload     int
		long, fits  bool
	}{
		{"the largest JSON, with all fields as long as they may be", "", settle.MaxPayload, true, true},
		{"other bytes that have as much room", binary, 691_200, true, true},
		{"other bytes with short fields", binary, 785_000, false, true},
		{"other bytes, however short the fields", binary, 787_000, false, false},
	} {
		if n := record(filled(t, c.contentType, c.payload, c.long)); (n <= mebibyte) != c.fits {
			t.Errorf("%s: a payload of %d bytes travels as %d; the limit is %d", c.what, c.payload, n, mebibyte)
		}
	}
	if as := len(settle.AppendEnvelope(nil, filled(t, binary, 691_200, false))); as > settle.MaxPayload+1000 {
		t.Errorf("691,200 bytes travel as %d, which is more than a JSON payload of %d", as, settle.MaxPayload)
	}
}

func TestTheErrorOfARecordThatIsTooLargeTellsWhatMadeItSo(t *testing.T) {
	binary := settle.TooLarge(&settle.Event{ContentType: "image/png", Payload: make([]byte, 800_000)}, 1_067_000, mebibyte)
	for _, says := range []string{"record of 1067000 bytes", "limit of 1048576", "payload of 800000 bytes is image/png", "base64"} {
		if !strings.Contains(binary.Error(), says) {
			t.Errorf("%q does not say %q", binary, says)
		}
	}
	text := settle.TooLarge(&settle.Event{Payload: make([]byte, 2_000_000)}, 2_000_400, mebibyte)
	if strings.Contains(text.Error(), "base64") {
		t.Errorf("of JSON it says %q", text)
	}
	for _, err := range []error{binary, text} {
		if settle.ScopeOf(err) != settle.ScopeRecord || !settle.IsPermanent(err) {
			t.Errorf("%v is not the event's own fault for good", err)
		}
	}
}
