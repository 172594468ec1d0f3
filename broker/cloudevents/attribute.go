package cloudevents

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/settlemq/settle"
)

// Attributes of the specification.
const (
	attrSpecVersion     = "specversion"
	attrID              = "id"
	attrType            = "type"
	attrSource          = "source"
	attrSubject         = "subject"
	attrTime            = "time"
	attrDataContentType = "datacontenttype"
	attrDataSchema      = "dataschema"
	attrData            = "data"
	attrDataBase64      = "data_base64"
)

// Extensions that the specification's repository describes.
const (
	extPartitionKey  = "partitionkey"
	extRecordedTime  = "recordedtime"
	extCorrelationID = "correlationid"
	extCausationID   = "causationid"
	extTraceparent   = "traceparent"
	extTracestate    = "tracestate"
)

// Extensions of Settle's.
const (
	// extWire says that Settle has written the event, by the rules of this version.
	extWire          = "settlewire"
	extAggregateType = "aggregatetype"
	extAggregateSeq  = "aggregateseq"
	extBizKey        = "bizkey"
	extVersion       = "version"
	extSupersedes    = "supersedes"
	// extHeaders holds, as a JSON object, the headers of an event whose names or
	// values no extension can have.
	extHeaders = "settleheaders"
)

const (
	specVersion = "1.0"
	wireVersion = "1"
)

// isTaken names what no header of an event may be written as.
func isTaken(name string) bool {
	switch name {
	case attrSpecVersion, attrID, attrType, attrSource, attrSubject, attrTime, attrDataContentType, attrData,
		extPartitionKey, extRecordedTime, extCorrelationID, extCausationID,
		extWire, extAggregateType, extAggregateSeq, extBizKey, extVersion, extSupersedes, extHeaders,
		"contenttype": // which is the content type in Java's binding for RocketMQ
		return true
	}
	return false
}

// attributesOf returns all attributes of e but datacontenttype, none of them
// empty.
func attributesOf(e *settle.Event, source string) [][2]string {
	as := make([][2]string, 0, 16+len(e.Headers))
	add := func(name, value string) {
		if value != "" {
			as = append(as, [2]string{name, value})
		}
	}
	add(attrSpecVersion, specVersion)
	add(attrID, e.ID)
	add(attrType, e.Type)
	add(attrSource, sourceOf(source))
	add(attrSubject, e.AggregateID)
	add(attrTime, timeText(e.OccurredAt))
	add(extPartitionKey, e.AggregateID)
	add(extRecordedTime, timeText(e.AppendedAt))
	add(extCorrelationID, e.TraceID)
	add(extCausationID, e.CausationID)
	add(extWire, wireVersion)
	add(extAggregateType, e.AggregateType)
	if e.AggregateSeq != 0 {
		add(extAggregateSeq, strconv.FormatInt(e.AggregateSeq, 10))
	}
	add(extBizKey, e.BizKey)
	add(extVersion, strconv.Itoa(max(e.Version, 1)))
	add(extSupersedes, e.Supersedes)
	return appendHeaders(as, e.Headers)
}

// appendHeaders makes extensions of an event's headers, and packs those that
// can't be any. Settle's own names are not sent.
func appendHeaders(as [][2]string, headers map[string]string) [][2]string {
	var packed map[string]string
	begin := len(as)
	for name, value := range headers {
		switch {
		case isSettles(name):
		case isExtension(name) && !isTaken(name) && value != "" && value == strings.TrimSpace(value):
			as = append(as, [2]string{name, value})
		default:
			if packed == nil {
				packed = map[string]string{}
			}
			packed[name] = value
		}
	}
	slices.SortFunc(as[begin:], func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	if packed != nil {
		if text, err := json.Marshal(packed); err == nil { // a map of strings always is
			as = append(as, [2]string{extHeaders, string(text)})
		}
	}
	return as
}

// isExtension reports whether the specification allows a name.
func isExtension(name string) bool {
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

func isSettles(name string) bool { return strings.HasPrefix(strings.ToLower(name), "settle-") }

// ownHeaders returns Settle's headers of m, and its trace context by the names
// that tracing reads.
func ownHeaders(m settle.Message) [][2]string {
	return slices.DeleteFunc(settle.WireHeaders(m), func(p [2]string) bool {
		return !isSettles(p[0]) && p[0] != extTraceparent && p[0] != extTracestate
	})
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// defaultSource stands for a relay that has no name: there must be a source.
const defaultSource = "settle"

// sourceOf makes a producer's name the URI reference that a source has to be.
// A name that is one is left as it is.
func sourceOf(name string) string {
	if name == "" {
		return defaultSource
	}
	if isURI(name) {
		if _, err := url.Parse(name); err == nil {
			return name
		}
	}
	return strings.ReplaceAll(url.QueryEscape(name), "+", "%20")
}

func isURI(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>\\^`{|}", c) >= 0 {
			return false
		}
	}
	return true
}
