package kafka

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/settlemq/settle"
)

// headerMessageID carries the id that is the same on every retry.
const headerMessageID = "settle-message-id"

// encodeHeaders returns headers of m as text in UTF-8, which Spring Kafka's header
// mapper reads as strings.
func encodeHeaders(m settle.Message, pairs [][2]string) []kgo.RecordHeader {
	if m.ID != m.Event.ID {
		pairs = append(pairs, [2]string{headerMessageID, m.ID})
	}
	size := 0
	for _, p := range pairs {
		size += len(p[1])
	}
	headers, values := make([]kgo.RecordHeader, len(pairs)), make([]byte, 0, size) // one piece of memory for all values
	for i, p := range pairs {
		begin := len(values)
		values = append(values, p[1]...)
		headers[i] = kgo.RecordHeader{Key: p[0], Value: values[begin:len(values):len(values)]}
	}
	return headers
}

// recordCost is what a record takes in memory beside its bytes, about.
const recordCost = 256

// sizeOf is what a record takes in memory, about.
func sizeOf(r *kgo.Record) int {
	size := recordCost + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		size += len(h.Key) + len(h.Value)
	}
	return size
}

// decodeHeaders keeps the last of several headers of one name, as consumers of
// Kafka do.
func decodeHeaders(from []kgo.RecordHeader) map[string]string {
	size := 0
	for _, h := range from {
		size += len(h.Value)
	}
	var values strings.Builder // one piece of memory for all values
	values.Grow(size)
	for _, h := range from {
		values.Write(h.Value)
	}
	headers, rest := make(map[string]string, len(from)), values.String()
	for _, h := range from {
		headers[h.Key], rest = rest[:len(h.Value)], rest[len(h.Value):]
	}
	return headers
}
