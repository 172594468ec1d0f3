package settle

import (
	"crypto/rand"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Limits that Append enforces, so that no event can be stored which a broker
// or a database of the toolkit would later cut or refuse.
const (
	// MaxPayload is the largest payload in bytes that an outbox accepts. It
	// leaves room for the envelope and the headers below the 1 MiB that
	// brokers accept by default.
	MaxPayload = 900 << 10
	// MaxEnvelope is the largest whole envelope in bytes that an adopted table
	// may hold: what MaxPayload allows, in an envelope, is allowed as one too.
	MaxEnvelope = MaxPayload + 16<<10
	// MaxField is the longest identifier (event id, type, key, topic …) in
	// bytes. It is the longest routing key of AMQP 0-9-1 that still leaves
	// room for a prefix.
	MaxField = 191
	// MaxHeaders is the largest sum of header names and values in bytes.
	MaxHeaders = 16 << 10
)

// ContentTypeJSON is the content type of a payload when none is named.
const ContentTypeJSON = "application/json"

// DefaultTopic is the topic of an event that names none. One topic for all
// events of an aggregate keeps their order; several topics lose it.
const DefaultTopic = "order-domain-event"

// Event is a fact that has happened. AggregateID is its key: events of one
// key keep their order, events of different keys have none.
type Event struct {
	// ID identifies the fact for ever and is what consumers deduplicate by.
	// Append assigns a UUIDv7 when it is empty.
	ID string
	// Type says what happened, for instance "order.created". Required.
	Type string
	// AggregateType names the kind of thing it happened to: "order".
	AggregateType string
	// AggregateID is the thing it happened to, and the ordering key. Required.
	AggregateID string
	// AggregateSeq counts the events of one aggregate from 1; 0 means not
	// counted.
	AggregateSeq int64
	// BizKey is a second key to find the event by. Append sets it to
	// AggregateID when empty.
	BizKey string
	// OccurredAt is when it happened. Append sets it to now when zero.
	OccurredAt time.Time
	// AppendedAt is when it was stored in the outbox. Append sets it.
	AppendedAt time.Time
	// TraceID groups what belongs to one business flow.
	TraceID string
	// CausationID is the id of the event that led to this one.
	CausationID string
	// Version is the version of the payload's schema; 0 is read as 1.
	Version int
	// ContentType describes Payload. Empty means ContentTypeJSON.
	ContentType string
	// Payload travels exactly as the database returns it.
	Payload []byte
	// Envelope is the whole envelope as an adopted table keeps it: it travels as
	// it is, in place of one made of the other fields, and Payload stays empty.
	// Nil for all others. See SetEnvelope.
	Envelope []byte
	// Headers travel beside the payload. Names are case-sensitive.
	Headers map[string]string
	// Topic is where the relay publishes it. Empty means DefaultTopic.
	Topic string
	// NotBefore delays publishing; an event with it may not carry AggregateSeq.
	// A relay that finds it less than its DelayAhead away, 10 s by default, sends
	// the event at once: what must never come early is checked by who receives it.
	NotBefore time.Time
	// Supersedes is the id of the event that this one, edited by a person,
	// stands in for. Empty for ordinary events.
	Supersedes string
}

// Key is what orders the event among others: AggregateID.
func (e *Event) Key() string { return e.AggregateID }

// NewID returns a UUIDv7, strictly increasing within one process.
func NewID() string {
	id, err := uuid.NewV7()
	if err != nil { // the system's source of randomness is gone
		return rand.Text()
	}
	return id.String()
}

// Prepare fills what a caller may leave empty and checks the rest; every
// Outbox calls it before it writes. It returns an *InvalidEventError.
func (e *Event) Prepare(now time.Time) error {
	if e.ID == "" {
		e.ID = NewID()
	}
	if e.BizKey == "" {
		e.BizKey = e.AggregateID
	}
	if e.OccurredAt.IsZero() {
		e.OccurredAt = now
	}
	if e.AppendedAt.IsZero() {
		e.AppendedAt = now
	}
	if e.Version == 0 {
		e.Version = 1
	}
	if e.ContentType == "" {
		e.ContentType = ContentTypeJSON
	}
	if e.Topic == "" {
		e.Topic = DefaultTopic
	}
	return e.Validate()
}

// Validate reports the first reason why the event can't be stored or sent, as
// an *InvalidEventError.
func (e *Event) Validate() error {
	switch {
	case e.Type == "":
		return e.invalid("type", "is empty; name what happened, for instance order.created")
	case e.AggregateID == "":
		return e.invalid("aggregateId", "is empty; it is the key that orders events")
	case e.AggregateSeq < 0:
		return e.invalid("aggregateSeq", "is negative; it counts from 1, 0 means not counted")
	case e.Version < 0:
		return e.invalid("version", "is negative; it counts from 1")
	case !e.NotBefore.IsZero() && e.AggregateSeq != 0:
		return e.invalid("notBefore", "is set beside aggregateSeq; a delayed event has no place in the sequence")
	case len(e.Payload) > MaxPayload:
		return e.invalid("payload", fmt.Sprintf("has %d bytes; the limit is %d", len(e.Payload), MaxPayload))
	}
	if err := e.validateTimes(); err != nil {
		return err
	}
	if err := e.validateFields(); err != nil {
		return err
	}
	return e.validateBody()
}

// validateTimes refuses what the envelope's format has no digits for: its
// readers could not decode the event.
func (e *Event) validateTimes() error {
	if hasFourDigits(e.OccurredAt) && hasFourDigits(e.AppendedAt) && hasFourDigits(e.NotBefore) {
		return nil
	}
	times := [...]struct {
		name string
		at   time.Time
	}{{"occurredAt", e.OccurredAt}, {"appendedAt", e.AppendedAt}, {"notBefore", e.NotBefore}}
	for _, t := range times {
		if y := t.at.UTC().Year(); y < 0 || y > 9999 {
			return e.invalid(t.name, fmt.Sprintf("is in the year %d; years have four digits", y))
		}
	}
	return nil
}

// hasFourDigits reports whether the year is from 0 to 9999 in UTC; seconds tell
// it sooner than a calendar does.
func hasFourDigits(t time.Time) bool {
	const first, end = -62167219200, 253402300800 // 0000-01-01 and 10000-01-01
	s := t.Unix()
	return first <= s && s < end
}

func (e *Event) validateFields() error {
	if fits(e.ID) && fits(e.Type) && fits(e.AggregateType) && fits(e.AggregateID) && fits(e.BizKey) && fits(e.TraceID) &&
		fits(e.CausationID) && fits(e.Topic) && fits(e.ContentType) && fits(e.Supersedes) {
		return nil
	}
	fields := [...]struct{ name, value string }{
		{"eventId", e.ID}, {"eventType", e.Type}, {"aggregateType", e.AggregateType},
		{"aggregateId", e.AggregateID}, {"bizKey", e.BizKey}, {"traceId", e.TraceID},
		{"causationId", e.CausationID}, {"topic", e.Topic}, {"contentType", e.ContentType},
		{"supersedes", e.Supersedes},
	}
	for _, f := range fields {
		if why := badText(f.value); why != "" {
			return e.invalid(f.name, why)
		}
	}
	return nil
}

func (e *Event) validateBody() error {
	total := 0
	for k, v := range e.Headers {
		if k == "" || !printable(k) {
			return e.invalid("headers", fmt.Sprintf("have the name %q; names are printable ASCII without colon or space", k))
		}
		if !utf8.ValidString(v) || hasControl(v) {
			return e.invalid("headers", fmt.Sprintf("have a value of %q that is not UTF-8 text on one line", k))
		}
		total += len(k) + len(v)
	}
	if total > MaxHeaders {
		return e.invalid("headers", fmt.Sprintf("have %d bytes; the limit is %d", total, MaxHeaders))
	}
	if e.Envelope != nil {
		return e.validateEnvelope()
	}
	if IsJSON(e.ContentType) && !validJSON(e.Payload) {
		return e.invalid("payload", "is not valid JSON although contentType says "+e.contentType())
	}
	return nil
}

func (e *Event) contentType() string {
	if e.ContentType == "" {
		return ContentTypeJSON
	}
	return e.ContentType
}

func (e *Event) invalid(field, why string) error {
	return &InvalidEventError{EventID: e.ID, EventType: e.Type, Field: field, Reason: why}
}

// fits reports that there is nothing to say against s; that of a text which is
// not ASCII badText decides.
func fits(s string) bool { return len(s) <= MaxField && plain(s) }

func badText(s string) string {
	switch {
	case len(s) > MaxField:
		return fmt.Sprintf("has %d bytes; the limit is %d", len(s), MaxField)
	case !utf8.ValidString(s):
		return "is not valid UTF-8"
	case hasControl(s):
		return "contains a control character"
	}
	return ""
}

func hasControl(s string) bool {
	if plain(s) {
		return false
	}
	for i := range len(s) {
		if s[i] < 0x20 || s[i] == 0x7f {
			return true
		}
	}
	return false
}

func printable(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= 0x20 || c >= 0x7f || c == ':' {
			return false
		}
	}
	return true
}
