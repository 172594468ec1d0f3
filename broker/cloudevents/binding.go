package cloudevents

import "strings"

// Binding is how a protocol carries the attributes of a CloudEvent beside its
// data.
type Binding int

// The bindings of the brokers that Settle speaks to.
const (
	// Kafka is the Kafka protocol binding: headers ce_*, and content-type.
	Kafka Binding = iota
	// AMQP is the AMQP protocol binding on AMQP 0-9-1, for which there is none of
	// its own: headers cloudEvents_* of the message, and its content type.
	AMQP
	// NATS is the NATS protocol binding: headers ce-*, percent-encoded.
	NATS
	// RocketMQ has no binding in the specification: user properties ce_*, and
	// content-type.
	RocketMQ
)

// prefixes are those that are read, in any case; the first is written.
func (b Binding) prefixes() []string {
	switch b {
	case AMQP:
		return []string{"cloudEvents_", "cloudEvents:", "ce_", "ce-"}
	case NATS:
		return []string{"ce-", "ce_"}
	}
	return []string{"ce_", "ce-"}
}

func (b Binding) prefix() string { return b.prefixes()[0] }

// attribute returns the name of the attribute that a header carries, if it does.
func attribute(prefix, header string) (string, bool) {
	if len(header) <= len(prefix) || !strings.EqualFold(header[:len(prefix)], prefix) {
		return "", false
	}
	return strings.ToLower(header[len(prefix):]), true
}

const (
	headerContentType = "content-type"
	// headerContentTypeNATS is written as it is in the headers of HTTP.
	headerContentTypeNATS = "Content-Type"
	// propertyContentType is what Java's binding for RocketMQ writes.
	propertyContentType = "CE_contenttype"
)

// contentTypeIn returns the content type that headers name.
func (b Binding) contentTypeIn(headers map[string]string) string {
	if is, found := headers[headerContentType]; found {
		return is
	}
	for name, value := range headers {
		if b.isContentType(name) {
			return value
		}
	}
	return ""
}

func (b Binding) isContentType(name string) bool {
	return strings.EqualFold(name, headerContentType) || b == RocketMQ && strings.EqualFold(name, propertyContentType)
}
