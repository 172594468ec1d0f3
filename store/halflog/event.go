package halflog

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/settlemq/settle"
)

// meta is an event without its payload.
type meta struct {
	ID            string            `json:"id"`
	Type          string            `json:"type"`
	AggregateType string            `json:"aggregate_type,omitempty"`
	AggregateID   string            `json:"aggregate_id"`
	AggregateSeq  int64             `json:"aggregate_seq,omitempty"`
	BizKey        string            `json:"biz_key,omitempty"`
	OccurredAt    time.Time         `json:"occurred_at"`
	AppendedAt    time.Time         `json:"appended_at"`
	TraceID       string            `json:"trace_id,omitempty"`
	CausationID   string            `json:"causation_id,omitempty"`
	Version       int               `json:"version,omitempty"`
	ContentType   string            `json:"content_type,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
	Topic         string            `json:"topic"`
	Supersedes    string            `json:"supersedes,omitempty"`
	// Whole: the payload column holds Event.Envelope.
	Whole bool `json:"whole,omitempty"`
}

// Kept returns an event as columns.
func Kept(e *settle.Event) (event, payload []byte, err error) {
	m := meta{
		ID: e.ID, Type: e.Type, AggregateType: e.AggregateType, AggregateID: e.AggregateID, AggregateSeq: e.AggregateSeq, BizKey: e.BizKey,
		OccurredAt: e.OccurredAt, AppendedAt: e.AppendedAt, TraceID: e.TraceID, CausationID: e.CausationID, Version: e.Version,
		ContentType: e.ContentType, Headers: e.Headers, Topic: e.Topic, Supersedes: e.Supersedes, Whole: e.Envelope != nil,
	}
	payload = e.Payload
	if m.Whole {
		payload = e.Envelope
	}
	if payload == nil {
		payload = []byte{}
	}
	if event, err = json.Marshal(m); err != nil {
		return nil, nil, fmt.Errorf("encode event %s: %w", e.ID, err)
	}
	return event, payload, nil
}

// EventOf returns the event that Kept has made columns of.
func EventOf(event, payload []byte) (*settle.Event, error) {
	var m meta
	if err := json.Unmarshal(event, &m); err != nil {
		return nil, fmt.Errorf("read a kept event: %w", err)
	}
	e := &settle.Event{
		ID: m.ID, Type: m.Type, AggregateType: m.AggregateType, AggregateID: m.AggregateID, AggregateSeq: m.AggregateSeq, BizKey: m.BizKey,
		OccurredAt: m.OccurredAt, AppendedAt: m.AppendedAt, TraceID: m.TraceID, CausationID: m.CausationID, Version: m.Version,
		ContentType: m.ContentType, Headers: m.Headers, Topic: m.Topic, Supersedes: m.Supersedes, Payload: payload,
	}
	if m.Whole {
		e.Payload, e.Envelope = nil, payload
	}
	return e, nil
}

// Raw is the value that consumers would have received, for a dead letter.
func Raw(e *settle.Event) []byte {
	if e.Envelope != nil {
		return e.Envelope
	}
	return settle.AppendEnvelope(nil, e)
}

// maxCause bounds what is kept of a cause, in bytes.
const maxCause = 2 << 10

// Cause makes an error's text one that every column takes.
func Cause(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) > maxCause {
		s = strings.ToValidUTF8(s[:maxCause], "") + "…"
	}
	return s
}

// maxField bounds what is indexed, in bytes.
const maxField = 191

// Field makes a name one that every column takes; a foreign message may have any.
func Field(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) > maxField {
		s = strings.ToValidUTF8(s[:maxField], "")
	}
	return s
}

// Times makes a broker's count one that every column takes.
func Times(n int) int { return max(0, min(n, math.MaxInt32)) }
