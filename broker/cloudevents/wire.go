package cloudevents

import (
	"fmt"

	"github.com/settlemq/settle"
)

// Wire is the form in which an adapter writes events. All forms are read by
// every adapter, without being told which it is.
type Wire int

const (
	// Envelope is Settle's own: a JSON envelope as the value. It is the default.
	Envelope Wire = iota
	// Binary is the binary content mode: the payload, byte for byte, is the value,
	// and everything else is in headers.
	Binary
	// Structured is the structured content mode in the JSON format: everything is
	// in the value.
	Structured
)

// ParseWire reads the name of a wire as it stands in the URL of a broker: empty
// is Envelope.
func ParseWire(name string) (Wire, error) {
	for _, w := range []Wire{Envelope, Binary, Structured} {
		if name == w.String() {
			return w, nil
		}
	}
	if name == "" {
		return Envelope, nil
	}
	return Envelope, fmt.Errorf("there is no wire %q; there are envelope, cloudevents-binary and cloudevents-structured", name)
}

// String returns the name that ParseWire reads.
func (w Wire) String() string {
	switch w {
	case Binary:
		return "cloudevents-binary"
	case Structured:
		return "cloudevents-structured"
	}
	return "envelope"
}

// Encoded is an event as it travels.
type Encoded struct {
	// Headers are pairs of name and value, each name once.
	Headers [][2]string
	// ContentType is that of Value, for a protocol that keeps it apart from the
	// headers (AMQP). For the others it is among Headers where the binding says so.
	ContentType string
	// Value is never nil: on Kafka no value at all would be a tombstone.
	Value []byte
}

// Encode returns m as it travels over b, with its value in buf, which may be nil,
// as far as that has room. m must be one that Validate accepts.
// Settle's own headers (settle-*) go along in each form, for brokers route by
// them, and so does the W3C trace context.
func (w Wire) Encode(b Binding, m settle.Message, buf []byte) Encoded {
	if w == Envelope {
		return Encoded{Headers: settle.WireHeaders(m), ContentType: settle.ContentTypeJSON, Value: settle.AppendEnvelope(buf, m.Event)}
	}
	e := unpacked(m.Event)
	headers := ownHeaders(m)
	if w == Structured || isCloudEvents(e.ContentType) { // which binary mode would have read as the event's own form
		return b.structured(e, m.Source, headers, buf)
	}
	return b.binary(e, m.Source, headers, buf)
}

// unpacked returns the event that a whole envelope holds. What is no envelope of
// Settle's travels as the payload that it is.
func unpacked(e *settle.Event) *settle.Event {
	if e.Envelope == nil {
		return e
	}
	in, err := settle.DecodeEnvelope(e.Envelope, e.Headers)
	if err != nil {
		in = new(settle.Event)
		*in = *e
		in.Payload, in.ContentType = e.Envelope, settle.ContentTypeJSON
	}
	in.Envelope = nil
	return in
}

func (b Binding) structured(e *settle.Event, source string, headers [][2]string, buf []byte) Encoded {
	switch b {
	case Kafka, RocketMQ:
		headers = append(headers, [2]string{headerContentType, contentTypeStructured})
	case NATS:
		headers = append(headers, [2]string{headerContentTypeNATS, contentTypeStructured})
	}
	return Encoded{Headers: headers, ContentType: contentTypeStructured, Value: appendStructured(buf, e, source)}
}

func (b Binding) binary(e *settle.Event, source string, headers [][2]string, buf []byte) Encoded {
	prefix := b.prefix()
	contentType := contentTypeOf(e)
	switch b {
	case Kafka, RocketMQ:
		headers = append(headers, [2]string{headerContentType, contentType})
	case NATS:
		headers = append(headers, [2]string{prefix + attrDataContentType, percentEncode(contentType)})
	}
	for _, a := range attributesOf(e, source) {
		if b == NATS {
			a[1] = percentEncode(a[1])
		}
		headers = append(headers, [2]string{prefix + a[0], a[1]})
	}
	if buf == nil {
		buf = make([]byte, 0, len(e.Payload)) // not nil, even if there is no payload
	}
	return Encoded{Headers: headers, ContentType: contentType, Value: append(buf, e.Payload...)}
}

func contentTypeOf(e *settle.Event) string {
	if e.ContentType == "" {
		return settle.ContentTypeJSON
	}
	return e.ContentType
}
