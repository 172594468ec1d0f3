package cloudevents

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/settlemq/settle"
)

const (
	mediaType             = "application/cloudevents"
	contentTypeStructured = mediaType + "+json; charset=utf-8"
)

// isCloudEvents reports whether a content type is one of events in any format,
// rather than of data.
func isCloudEvents(contentType string) bool {
	return len(contentType) >= len(mediaType) && strings.EqualFold(contentType[:len(mediaType)], mediaType)
}

// structuredRoom is what names of attributes, times and numbers take.
const structuredRoom = 384

// appendStructured appends e in the JSON format. JSON data is embedded byte for
// byte; any other is base64, and so is JSON that a reader would lose something of:
// white space around it, or bytes that are not UTF-8.
func appendStructured(dst []byte, e *settle.Event, source string) []byte {
	dst = slices.Grow(dst, structuredRoom+len(e.Payload)*4/3)
	for i, a := range attributesOf(e, source) {
		dst = append(dst, `{,`[min(i, 1)])
		dst = appendString(dst, a[0])
		dst = append(dst, ':')
		dst = appendString(dst, a[1])
	}
	dst = append(dst, `,"datacontenttype":`...)
	dst = appendString(dst, contentTypeOf(e))
	switch {
	case len(e.Payload) == 0:
	case settle.IsJSON(e.ContentType) && len(bytes.TrimSpace(e.Payload)) == len(e.Payload) && utf8.Valid(e.Payload):
		dst = append(dst, `,"data":`...)
		dst = append(dst, e.Payload...)
	default:
		dst = append(dst, `,"data_base64":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, e.Payload)
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

// appendString quotes s. The fast path covers what identifiers are made of.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= 0x7f {
			b, err := json.Marshal(s)
			if err != nil { // a string always is JSON
				return append(dst, `""`...)
			}
			return append(dst, b...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// parsed is a CloudEvent of any binding.
type parsed struct {
	// attributes by name, without datacontenttype.
	attributes map[string]string
	// contentType of data; unknown where it is empty.
	contentType string
	data        []byte
}

func parseStructured(value []byte) (p parsed, err error) {
	if !utf8.Valid(value) {
		return p, errors.New("the value is not UTF-8")
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(value, &members); err != nil {
		return p, fmt.Errorf("the value is not a JSON object: %w", err)
	}
	if members == nil {
		return p, errors.New("the value is not a JSON object: it is null")
	}
	data, hasData := members[attrData]
	encoded, hasEncoded := members[attrDataBase64]
	hasEncoded = hasEncoded && string(encoded) != "null"
	delete(members, attrData)
	delete(members, attrDataBase64)
	p.attributes = make(map[string]string, len(members))
	for name, raw := range members {
		text, is, err := scalar(raw)
		if err != nil {
			return p, fmt.Errorf("%s %w", name, err)
		}
		if is {
			p.attributes[name] = text
		}
	}
	p.contentType = p.attributes[attrDataContentType]
	delete(p.attributes, attrDataContentType)
	switch {
	case hasEncoded && hasData && string(data) != "null":
		return p, errors.New("there is data and data_base64, of which there may be one")
	case hasEncoded:
		return p, p.decodeBase64(encoded)
	case hasData:
		return p, p.decodeData(data)
	}
	return p, nil
}

// scalar returns the canonical text of an attribute. Null stands for none.
func scalar(raw json.RawMessage) (text string, is bool, err error) {
	switch c := raw[0]; {
	case c == 'n':
		return "", false, nil
	case c == '"':
		err := json.Unmarshal(raw, &text)
		return text, true, err
	case c == 't', c == 'f':
		return string(raw), true, nil
	case bytes.ContainsAny(raw, ".eE{["):
		return "", false, errors.New("is neither a text, nor an integer, nor true or false")
	}
	return string(raw), true, nil
}

func (p *parsed) decodeBase64(encoded json.RawMessage) error {
	if err := json.Unmarshal(encoded, &p.data); err != nil {
		return fmt.Errorf("data_base64 is not base64: %w", err)
	}
	if p.contentType == "" {
		p.contentType = contentTypeBytes
	}
	return nil
}

func (p *parsed) decodeData(data json.RawMessage) error {
	if settle.IsJSON(p.contentType) { // so it is where none is named
		p.data = bytes.Clone(data)
		if p.contentType == "" {
			p.contentType = settle.ContentTypeJSON
		}
		return nil
	}
	var text *string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("data is not a text, and its content type %s is not JSON", p.contentType)
	}
	if text != nil {
		p.data = []byte(*text)
	}
	return nil
}
