package cloudevents

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/settlemq/settle"
)

// contentTypeBytes is the content type of data of which nothing is known.
const contentTypeBytes = "application/octet-stream"

// Found is a record as a broker delivered it.
type Found struct {
	Value []byte
	// Headers are the protocol's, by name.
	Headers map[string]string
	// ContentType is that of a protocol that keeps it apart from the headers.
	// Empty where it is among them.
	ContentType string
	// Key is the record's, empty where the protocol has none. It is the aggregate of
	// an event that has neither a subject nor a partition key.
	Key string
}

// Decode returns the event that a record holds, in whichever wire it was written,
// and whether that was one of CloudEvents. The payload is a copy. It returns an
// error, never a panic, for what is no event; the reason names what is wrong.
func (b Binding) Decode(f Found) (e *settle.Event, is bool, err error) {
	contentType := f.ContentType
	if contentType == "" {
		contentType = b.contentTypeIn(f.Headers)
	}
	var p parsed
	switch {
	case isCloudEvents(contentType):
		p, err = parseFormat(contentType, f.Value)
	default:
		var found bool
		if p, found, err = b.parseBinary(f, contentType); found || err != nil {
			break
		}
		e, err = settle.DecodeEnvelope(f.Value, f.Headers)
		if err == nil || !isUnmarked(f.Value) {
			return e, false, err
		}
		p, err = parseStructured(f.Value)
	}
	if err == nil {
		e, err = b.event(p, f)
	}
	if err != nil {
		return nil, true, fmt.Errorf("not a CloudEvent that can be read: %w", err)
	}
	return e, true, nil
}

// parseFormat reads a value whose content type says that it is a whole event.
func parseFormat(contentType string, value []byte) (parsed, error) {
	format, _, _ := strings.Cut(contentType[len(mediaType):], ";")
	switch format = strings.ToLower(strings.TrimSpace(format)); {
	case format == "" || format == "+json":
		return parseStructured(value)
	case strings.HasPrefix(format, "-batch"):
		return parsed{}, errors.New("it is a batch, of which a record has no more than one place to acknowledge; send each event in a record of its own")
	}
	return parsed{}, fmt.Errorf("its format is %s%s, and only the JSON format is read", mediaType, format)
}

// isUnmarked reports whether a value without a content type that says so is a
// whole event: older producers on NATS, and some on Kafka, name none.
func isUnmarked(value []byte) bool {
	if !bytes.Contains(value, []byte(`"specversion"`)) {
		return false
	}
	var members struct {
		SpecVersion json.RawMessage `json:"specversion"`
	}
	return json.Unmarshal(value, &members) == nil && members.SpecVersion != nil
}

// parseBinary reads the binary mode; found is false when no header says that it
// is one.
func (b Binding) parseBinary(f Found, contentType string) (p parsed, found bool, err error) {
	prefix, found := b.prefixIn(f.Headers)
	if !found {
		return p, false, nil
	}
	p = parsed{attributes: make(map[string]string, len(f.Headers)), contentType: contentType, data: bytes.Clone(f.Value)}
	for header, value := range f.Headers {
		name, is := attribute(prefix, header)
		if !is || b.isContentType(header) {
			continue
		}
		if b == NATS {
			if value, err = percentDecode(value); err != nil {
				return p, true, fmt.Errorf("%s %w", header, err)
			}
		}
		p.attributes[name] = value
	}
	// NATS has the content type among the attributes, and so do producers that
	// took over another binding's.
	if in := p.attributes[attrDataContentType]; in != "" && (b == NATS || p.contentType == "") {
		p.contentType = in
	}
	delete(p.attributes, attrDataContentType)
	if p.contentType == "" {
		p.contentType = contentTypeBytes
		if json.Valid(p.data) || len(p.data) == 0 {
			p.contentType = settle.ContentTypeJSON
		}
	}
	if settle.IsJSON(p.contentType) && len(p.data) > 0 && !json.Valid(p.data) {
		return p, true, errors.New("the data is not valid JSON although its content type is " + p.contentType)
	}
	return p, true, nil
}

// prefixIn returns the prefix of the attributes among headers: that before
// specversion, which every event has, or else before id and type.
func (b Binding) prefixIn(headers map[string]string) (prefix string, found bool) {
	const need = 2
	for _, p := range b.prefixes() {
		n := 0
		for header := range headers {
			switch name, _ := attribute(p, header); name {
			case attrSpecVersion:
				return p, true
			case attrID, attrType, attrSource:
				n++
			}
		}
		if n >= need {
			return p, true
		}
	}
	return "", false
}

// event makes a CloudEvent one of Settle's.
func (b Binding) event(p parsed, f Found) (*settle.Event, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	a := p.attributes
	e := &settle.Event{
		ID: a[attrID], Type: a[attrType], AggregateID: a[attrSubject], TraceID: a[extCorrelationID],
		CausationID: a[extCausationID], Version: 1, ContentType: p.contentType, Payload: p.data,
	}
	if e.ContentType == "" {
		e.ContentType = settle.ContentTypeJSON
	}
	var err error
	if e.OccurredAt, err = parseTime(attrTime, a[attrTime]); err != nil {
		return nil, err
	}
	if a[extWire] != "" {
		return e, p.own(e)
	}
	// An extension of another's is no reason to refuse the event.
	e.AppendedAt, _ = parseTime(extRecordedTime, a[extRecordedTime])
	if e.AggregateID == "" {
		e.AggregateID = a[extPartitionKey]
	}
	if e.AggregateID == "" && checkText("key", f.Key) == nil {
		e.AggregateID = f.Key
	}
	if e.AggregateID == "" {
		e.AggregateID = e.ID
	}
	e.ID, e.BizKey = foreignID(e.ID, a[attrSource]), e.AggregateID
	e.Headers = b.foreignHeaders(p, f)
	return e, nil
}

// check refuses what the specification does not allow.
func (p parsed) check() error {
	if is := p.attributes[attrSpecVersion]; is != specVersion {
		if is == "" {
			return errors.New("specversion is missing")
		}
		return fmt.Errorf("specversion is %q, and only %s is read", is, specVersion)
	}
	for _, name := range []string{attrID, attrType, attrSource} {
		if p.attributes[name] == "" {
			return errors.New(name + " is missing")
		}
	}
	for name, value := range p.attributes {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == ':' }) {
			return fmt.Errorf("an attribute has the name %q", name)
		}
		if err := checkText(name, value); err != nil {
			return err
		}
	}
	return checkText(attrDataContentType, p.contentType)
}

// own reads the extensions that Settle wrote.
func (p parsed) own(e *settle.Event) error {
	a := p.attributes
	if a[extWire] != wireVersion {
		return fmt.Errorf("%s is %q, which is of a later version of Settle than this", extWire, a[extWire])
	}
	if e.AggregateID == "" {
		return errors.New(attrSubject + " is missing, which is the aggregate's id")
	}
	var err error
	if e.AppendedAt, err = parseTime(extRecordedTime, a[extRecordedTime]); err != nil {
		return err
	}
	if text := a[extAggregateSeq]; text != "" {
		if e.AggregateSeq, err = strconv.ParseInt(text, 10, 64); err != nil || e.AggregateSeq < 0 {
			return fmt.Errorf("%s is %q, and no number from 1 on", extAggregateSeq, text)
		}
	}
	if text := a[extVersion]; text != "" {
		if e.Version, err = strconv.Atoi(text); err != nil || e.Version < 1 {
			return fmt.Errorf("%s is %q, and no number from 1 on", extVersion, text)
		}
	}
	e.AggregateType, e.BizKey, e.Supersedes = a[extAggregateType], a[extBizKey], a[extSupersedes]
	headers := map[string]string{}
	for name, value := range a {
		if !isTaken(name) {
			headers[name] = value
		}
	}
	if text := a[extHeaders]; text != "" {
		if err := json.Unmarshal([]byte(text), &headers); err != nil {
			return fmt.Errorf("%s is not a JSON object of texts: %w", extHeaders, err)
		}
	}
	if len(headers) > 0 {
		e.Headers = headers
	}
	return nil
}

// foreignHeaders returns all attributes that are no field of an event, and those
// headers of the protocol that are no attributes.
func (b Binding) foreignHeaders(p parsed, f Found) map[string]string {
	headers := map[string]string{}
	for name, value := range f.Headers {
		if !isSettles(name) && !b.isContentType(name) && !b.isAttribute(name) {
			headers[name] = value
		}
	}
	for name, value := range p.attributes {
		switch name {
		case attrSpecVersion, attrType, attrTime:
		case attrID, attrSource, attrSubject:
			headers["ce-"+name] = value // where a field does not hold it as it was
		default:
			headers[name] = value
		}
	}
	return headers
}

func (b Binding) isAttribute(header string) bool {
	for _, prefix := range b.prefixes() {
		if _, is := attribute(prefix, header); is {
			return true
		}
	}
	return false
}

func parseTime(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s is %q, and no time of RFC 3339", name, text)
	}
	if t = t.UTC(); t.Year() < 0 || t.Year() > 9999 {
		return time.Time{}, fmt.Errorf("%s is %q, whose year in UTC has not four digits", name, text)
	}
	return t, nil
}

// foreignID returns what a fact of another producer is known by. CloudEvents are
// told apart by source and id together: ids that are unique by themselves are
// left as they are, all others get their source, or two producers that count
// from 1 would be taken for one that repeats itself.
func foreignID(id, source string) string {
	if isUUID(id) {
		return id
	}
	if full := id + "@" + source; len(full) <= settle.MaxField {
		return full
	}
	sum := sha256.Sum256([]byte(source))
	return id + "@" + hex.EncodeToString(sum[:16])
}

func isUUID(s string) bool {
	const length = 36
	if len(s) != length {
		return false
	}
	for i := range len(s) {
		if at := i == 8 || i == 13 || i == 18 || i == 23; at != (s[i] == '-') || !at && digit(s[i]) < 0 {
			return false
		}
	}
	return true
}
