package settle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

type envelope struct {
	EventID       string          `json:"eventId"`
	EventType     string          `json:"eventType"`
	AggregateType string          `json:"aggregateType"`
	AggregateID   string          `json:"aggregateId"`
	AggregateSeq  int64           `json:"aggregateSeq"`
	BizKey        string          `json:"bizKey"`
	OccurredAt    time.Time       `json:"occurredAt"`
	AppendedAt    time.Time       `json:"appendedAt"`
	TraceID       string          `json:"traceId"`
	CausationID   string          `json:"causationId"`
	Supersedes    string          `json:"supersedes"`
	Version       int             `json:"version"`
	ContentType   string          `json:"contentType"`
	Payload       json.RawMessage `json:"payload"`
	PayloadBase64 []byte          `json:"payloadBase64"`
}

// DecodeEnvelope reads an envelope that AppendEnvelope, or a producer in any
// language, wrote. Unknown fields are passed over, so that envelopes can
// grow. It returns an error, never a panic, for anything else; the payload is
// a copy.
func DecodeEnvelope(value []byte, headers map[string]string) (*Event, error) {
	var env envelope
	if !env.scan(value) {
		env = envelope{}
		if err := json.Unmarshal(value, &env); err != nil {
			return nil, fmt.Errorf("not an event envelope: %w", err)
		}
	}
	e := &Event{
		ID: env.EventID, Type: env.EventType, AggregateType: env.AggregateType, AggregateID: env.AggregateID,
		AggregateSeq: env.AggregateSeq, BizKey: env.BizKey, OccurredAt: env.OccurredAt, AppendedAt: env.AppendedAt,
		TraceID: env.TraceID, CausationID: env.CausationID, Supersedes: env.Supersedes,
		Version: max(env.Version, 1), ContentType: env.ContentType,
	}
	if e.ContentType == "" {
		e.ContentType = ContentTypeJSON
	}
	if len(env.PayloadBase64) > 0 {
		e.Payload = env.PayloadBase64
	} else if !bytes.Equal(env.Payload, []byte("null")) {
		e.Payload = bytes.Clone(env.Payload)
	}
	switch {
	case e.ID == "":
		return nil, errors.New("not an event envelope: eventId is missing")
	case e.Type == "":
		return nil, errors.New("not an event envelope: eventType is missing")
	case e.AggregateID == "":
		return nil, errors.New("not an event envelope: aggregateId is missing")
	case len(env.PayloadBase64) > 0 && IsJSON(e.ContentType) && !json.Valid(e.Payload):
		return nil, errors.New("not an event envelope: payloadBase64 is not JSON although contentType says so")
	case env.Version < 0 || e.AggregateSeq < 0:
		return nil, errors.New("not an event envelope: version or aggregateSeq is negative")
	}
	e.setHeaders(headers)
	return e, nil
}

// setHeaders keeps what is not Settle's own.
func (e *Event) setHeaders(headers map[string]string) {
	for k, v := range headers {
		if !strings.HasPrefix(strings.ToLower(k), "settle-") {
			if e.Headers == nil {
				e.Headers = make(map[string]string, len(headers))
			}
			e.Headers[k] = v
		}
	}
}

// scan reads the flat form that AppendEnvelope writes, without reflection. It
// returns false for anything it does not know for sure (escapes, white space but
// behind a colon or comma, as PostgreSQL's jsonb has it, unknown or repeated
// fields): encoding/json then has the word. A consumer decodes every record, and
// this is several times faster.
func (env *envelope) scan(b []byte) bool {
	if len(b) < 2 || b[0] != '{' {
		return false
	}
	seen := uint32(0)
	for i := 1; ; {
		name, next, ok := scanString(b, skipSpace(b, i))
		if !ok || next >= len(b) || b[next] != ':' {
			return false
		}
		bit, end := env.scanValue(name, b, skipSpace(b, next+1))
		if bit == 0 || seen&bit != 0 || end >= len(b) {
			return false
		}
		seen |= bit
		switch b[end] {
		case ',':
			i = end + 1
		case '}':
			return end == len(b)-1
		default:
			return false
		}
	}
}

// scanValue reads the value of a field at i. It returns the field's bit, 0 for
// what is left to encoding/json, and the index behind the value.
func (env *envelope) scanValue(name []byte, b []byte, i int) (bit uint32, end int) {
	var text *string
	switch string(name) {
	case "eventId":
		bit, text = 1, &env.EventID
	case "eventType":
		bit, text = 2, &env.EventType
	case "aggregateType":
		bit, text = 4, &env.AggregateType
	case "aggregateId":
		bit, text = 8, &env.AggregateID
	case "bizKey":
		bit, text = 16, &env.BizKey
	case "traceId":
		bit, text = 32, &env.TraceID
	case "causationId":
		bit, text = 64, &env.CausationID
	case "supersedes":
		bit, text = 128, &env.Supersedes
	case "contentType":
		bit, text = 256, &env.ContentType
	case "occurredAt":
		return scanTime(b, i, 512, &env.OccurredAt)
	case "appendedAt":
		return scanTime(b, i, 1024, &env.AppendedAt)
	case "aggregateSeq":
		n, end := scanInt(b, i)
		env.AggregateSeq = n
		return 2048, end
	case "version":
		n, end := scanInt(b, i)
		env.Version = int(n)
		return 4096, end
	case "payload":
		end := scanRaw(b, i)
		if end > len(b) || !json.Valid(b[i:end]) {
			return 0, 0
		}
		env.Payload = b[i:end]
		return 8192, end
	default:
		return 0, 0
	}
	s, end, ok := scanString(b, i)
	if !ok {
		return 0, 0
	}
	*text = string(s)
	return bit, end
}

// scanString reads a quoted string of plain ASCII without escapes at i.
func scanString(b []byte, i int) (s []byte, end int, ok bool) {
	if i >= len(b) || b[i] != '"' {
		return nil, 0, false
	}
	for j := i + 1; j < len(b); j++ {
		switch c := b[j]; {
		case c == '"':
			return b[i+1 : j], j + 1, true
		case c == '\\' || c < 0x20 || c >= 0x7f:
			return nil, 0, false
		}
	}
	return nil, 0, false
}

func scanTime(b []byte, i int, bit uint32, t *time.Time) (uint32, int) {
	s, end, ok := scanString(b, i)
	if !ok || t.UnmarshalText(s) != nil {
		return 0, 0
	}
	return bit, end
}

// scanInt reads at most 18 digits: what is longer, or signed, is left alone.
func scanInt(b []byte, i int) (n int64, end int) {
	j := i
	for j < len(b) && b[j] >= '0' && b[j] <= '9' {
		j++
	}
	if j == i || j-i > 18 || (b[i] == '0' && j-i > 1) {
		return 0, len(b)
	}
	n, err := strconv.ParseInt(string(b[i:j]), 10, 64)
	if err != nil {
		return 0, len(b)
	}
	return n, j
}

// scanRaw returns the index behind the JSON value at i, by its brackets alone.
func scanRaw(b []byte, i int) int {
	depth := 0
	for j := i; j < len(b); j++ {
		switch b[j] {
		case '"':
			for j++; j < len(b) && b[j] != '"'; j++ {
				if b[j] == '\\' {
					j++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return j
			}
			depth--
		case ',':
			if depth == 0 {
				return j
			}
		}
	}
	return len(b)
}
