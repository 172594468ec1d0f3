package rabbitmq

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// headerExact carries, as a JSON object, the headers of an event that the
	// broker would act on, or whose name is longer than it takes.
	headerExact = "settle-exact-headers"
	// maxHeaderName is how long AMQP lets a header's name be.
	maxHeaderName = 128
)

// encodePairs returns headers and their bytes.
func encodePairs(pairs [][2]string) (amqp.Table, int) {
	headers := make(amqp.Table, len(pairs)+1)
	size := 0
	var exact map[string]string
	for _, p := range pairs {
		if isServers(p[0]) || len(p[0]) > maxHeaderName {
			if exact == nil {
				exact = map[string]string{}
			}
			exact[p[0]] = p[1]
			continue
		}
		headers[p[0]] = p[1]
		size += len(p[0]) + len(p[1])
	}
	if exact != nil {
		if packed, err := json.Marshal(exact); err == nil { // a map of strings always is
			headers[headerExact] = string(packed)
			size += len(headerExact) + len(packed)
		}
	}
	return headers, size
}

// decodeHeaders returns headers as text, without those that are the broker's.
func decodeHeaders(from amqp.Table) map[string]string {
	headers := make(map[string]string, len(from))
	for k, v := range from {
		if !isServers(k) && k != headerExact {
			headers[k] = text(v)
		}
	}
	if packed, is := from[headerExact].(string); is {
		var exact map[string]string
		if json.Unmarshal([]byte(packed), &exact) == nil {
			for k, v := range exact {
				headers[k] = v
			}
		}
	}
	return headers
}

func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	case nil:
		return ""
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case amqp.Table, []any:
		if b, err := json.Marshal(v); err == nil {
			return string(b)
		}
	}
	return fmt.Sprint(v)
}

// isServers names headers that RabbitMQ routes by or writes itself.
func isServers(name string) bool {
	switch name {
	case "CC", "BCC", "x-death", "x-delivery-count", "x-acquired-count":
		return true
	}
	return strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
}
