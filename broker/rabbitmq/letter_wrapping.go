package rabbitmq

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/settlemq/settle/bridge"
	"github.com/settlemq/settle/broker/internal/deadletter"
)

// maxWrapping bounds what is kept of a letter beside its bytes and headers.
const maxWrapping = 64 << 10

// wrapping is what makes a letter the message that it was: its properties, and
// the headers that are not text. User is who it was published by, which only he
// may say again.
type wrapping struct {
	ContentType     octets           `json:"content_type,omitzero"`
	ContentEncoding octets           `json:"content_encoding,omitzero"`
	Priority        uint8            `json:"priority,omitempty"`
	CorrelationID   octets           `json:"correlation_id,omitzero"`
	ReplyTo         octets           `json:"reply_to,omitzero"`
	Expiration      octets           `json:"expiration,omitzero"`
	MessageID       octets           `json:"message_id,omitzero"`
	Timestamp       int64            `json:"timestamp,omitempty"` // seconds
	Type            octets           `json:"type,omitzero"`
	AppID           octets           `json:"app_id,omitzero"`
	Headers         map[string]field `json:"headers,omitempty"`
}

// wrap returns nil for what has no room.
func wrap(d amqp.Delivery) []byte {
	w := wrapping{
		ContentType: octets(d.ContentType), ContentEncoding: octets(d.ContentEncoding), Priority: d.Priority, CorrelationID: octets(d.CorrelationId),
		ReplyTo: octets(d.ReplyTo), Expiration: octets(expiration(d)), MessageID: octets(d.MessageId), Type: octets(d.Type), AppID: octets(d.AppId),
		Headers: map[string]field{},
	}
	if !d.Timestamp.IsZero() {
		w.Timestamp = d.Timestamp.Unix()
	}
	for k, v := range d.Headers {
		if isOfDeath(k) {
			continue
		}
		if !deadletter.IsText(k) {
			return nil
		}
		if s, is := v.(string); !is || !deadletter.IsText(s) {
			w.Headers[k] = pack(v)
		}
	}
	packed, err := json.Marshal(w)
	if err != nil || len(packed) > maxWrapping {
		return nil
	}
	return packed
}

// expiration is the time to live that the producer gave the message. RabbitMQ
// takes it away when it dies, and tells it in the first death.
func expiration(d amqp.Delivery) string {
	entries, _ := d.Headers["x-death"].([]any)
	for _, e := range entries {
		if entry, is := e.(amqp.Table); is && d.Expiration == "" {
			d.Expiration, _ = entry["original-expiration"].(string)
		}
	}
	return d.Expiration
}

// isOfDeath names the headers that a message has because it died: RabbitMQ's,
// which would go on to be counted, Spring's, and ours of the last return.
func isOfDeath(name string) bool {
	switch name {
	case "x-death", "x-delivery-count", "x-acquired-count", springMessage, springTrace, springExchange, springRoutingKey, bridge.HeaderReturn, deadletter.HeaderOrigin:
		return true
	}
	return strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
}

// octets are bytes that are text most of the time.
type octets string

// MarshalJSON implements json.Marshaler: bytes that are no text become an array
// with their base64.
func (o octets) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(o)) {
		return json.Marshal(string(o))
	}
	return json.Marshal([][]byte{[]byte(o)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *octets) UnmarshalJSON(from []byte) error {
	var s string
	if json.Unmarshal(from, &s) == nil {
		*o = octets(s)
		return nil
	}
	var b [][]byte
	if err := json.Unmarshal(from, &b); err != nil || len(b) != 1 {
		return fmt.Errorf("unwrap %d bytes: they are no text and no base64", len(from))
	}
	*o = octets(b[0])
	return nil
}
