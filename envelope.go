package settle

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names of the headers that travel beside the envelope, so that a consumer can
// route without parsing it.
const (
	HeaderEventID      = "settle-event-id"
	HeaderEventType    = "settle-event-type"
	HeaderAggregateID  = "settle-aggregate-id"
	HeaderAggregateSeq = "settle-aggregate-seq"
	HeaderBizKey       = "settle-biz-key"
	HeaderAppendedAt   = "settle-appended-at"
	HeaderProducer     = "settle-producer"
	HeaderEpoch        = "settle-relay-epoch"
	HeaderTraceparent  = "traceparent"
)

// WireHeaders returns m's headers as pairs: the event's own, then Settle's. A
// header of the event that has one of Settle's names is not sent.
func WireHeaders(m Message) [][2]string {
	e := m.Event
	h := make([][2]string, 0, len(e.Headers)+8)
	for k, v := range e.Headers {
		if !strings.HasPrefix(strings.ToLower(k), "settle-") {
			h = append(h, [2]string{k, v})
		}
	}
	h = append(h, [2]string{HeaderEventID, e.ID}, [2]string{HeaderEventType, e.Type}, [2]string{HeaderAggregateID, e.AggregateID})
	if e.AggregateSeq > 0 {
		h = append(h, [2]string{HeaderAggregateSeq, strconv.FormatInt(e.AggregateSeq, 10)})
	}
	if e.BizKey != "" && e.BizKey != e.AggregateID {
		h = append(h, [2]string{HeaderBizKey, e.BizKey})
	}
	h = append(h, [2]string{HeaderAppendedAt, strconv.FormatInt(e.AppendedAt.UnixMicro(), 10)})
	if m.Source != "" {
		h = append(h, [2]string{HeaderProducer, m.Source})
	}
	if m.Epoch > 0 {
		h = append(h, [2]string{HeaderEpoch, strconv.FormatInt(m.Epoch, 10)})
	}
	return h
}

// envelopeRoom is what names of fields, times and numbers take.
const envelopeRoom = 256

// AppendEnvelope appends the JSON envelope of e to dst. It uses no reflection:
// a relay encodes every event it sends. A JSON payload is embedded byte for
// byte; any other payload travels as a base64 string under payloadBase64.
// An event that has its Envelope already travels as that.
func AppendEnvelope(dst []byte, e *Event) []byte {
	if e.Envelope != nil {
		return append(dst, e.Envelope...)
	}
	// Grown at once: to grow as it is written costs more than all the writing.
	dst = slices.Grow(dst, envelopeRoom+len(e.ID)+len(e.Type)+len(e.AggregateType)+len(e.AggregateID)+len(e.BizKey)+len(e.TraceID)+len(e.CausationID)+len(e.Payload))
	dst = append(dst, `{"eventId":`...)
	dst = appendString(dst, e.ID)
	dst = appendField(dst, "eventType", e.Type)
	dst = appendField(dst, "aggregateType", e.AggregateType)
	dst = appendField(dst, "aggregateId", e.AggregateID)
	if e.AggregateSeq != 0 {
		dst = append(dst, `,"aggregateSeq":`...)
		dst = strconv.AppendInt(dst, e.AggregateSeq, 10)
	}
	dst = appendField(dst, "bizKey", e.BizKey)
	dst = appendTime(dst, "occurredAt", e.OccurredAt)
	dst = appendTime(dst, "appendedAt", e.AppendedAt)
	dst = appendField(dst, "traceId", e.TraceID)
	dst = appendField(dst, "causationId", e.CausationID)
	dst = appendField(dst, "supersedes", e.Supersedes)
	dst = append(dst, `,"version":`...)
	dst = strconv.AppendInt(dst, int64(max(e.Version, 1)), 10)
	if e.ContentType != "" && e.ContentType != ContentTypeJSON {
		dst = appendField(dst, "contentType", e.ContentType)
	}
	if IsJSON(e.ContentType) && len(e.Payload) > 0 {
		dst = append(dst, `,"payload":`...)
		dst = append(dst, e.Payload...)
	} else if len(e.Payload) > 0 {
		dst = append(dst, `,"payloadBase64":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, e.Payload)
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

func appendField(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	dst = append(dst, '"', ':')
	return appendString(dst, value)
}

func appendTime(dst []byte, name string, t time.Time) []byte {
	if t.IsZero() {
		return dst
	}
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	dst = append(dst, `":"`...)
	dst = t.UTC().AppendFormat(dst, time.RFC3339Nano)
	return append(dst, '"')
}

// appendString quotes s. The fast path covers what identifiers are made of.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= 0x7f {
			b, err := json.Marshal(s)
			if err != nil {
				return append(dst, `""`...)
			}
			return append(dst, b...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// IsJSON reports whether a payload of this content type is JSON.
func IsJSON(contentType string) bool {
	if contentType == "" || contentType == ContentTypeJSON {
		return true
	}
	base, _, _ := strings.Cut(contentType, ";")
	base = strings.TrimSpace(strings.ToLower(base))
	return base == ContentTypeJSON || strings.HasSuffix(base, "+json")
}
