package nats

import (
	"encoding/json"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/settlemq/settle"
)

const (
	// headerExact carries, as a JSON object, the headers of an event that the
	// server would act on (Nats-…) or whose value would lose its outer white
	// space. It is rare, and exact.
	headerExact = "settle-exact-headers"

	serverPrefix = "nats-"
)

// encodeHeaders returns m's headers and how many bytes they take on the wire.
func encodeHeaders(m settle.Message, pairs [][2]string, stream string) (nats.Header, int) {
	header := make(nats.Header, len(pairs)+5)
	values := make([]string, 0, len(pairs)+3)
	size := len("NATS/1.0\r\n\r\n")
	set := func(k, v string) {
		values = append(values, v)
		header[k] = values[len(values)-1 : len(values) : len(values)]
		size += len(k) + len(v) + len(": \r\n")
	}
	var exact map[string]string
	for _, p := range pairs {
		if isServers(p[0]) || strings.Trim(p[1], " \t") != p[1] {
			if exact == nil {
				exact = make(map[string]string)
			}
			exact[p[0]] = p[1]
			continue
		}
		set(p[0], p[1])
	}
	if exact != nil {
		b, err := json.Marshal(exact)
		if err == nil { // a map of strings always is
			set(headerExact, string(b))
		}
	}
	set(nats.MsgIdHdr, m.ID)
	set(nats.ExpectedStreamHdr, stream)
	return header, size
}

// decodeHeaders returns the headers of a stored record without the server's
// own.
func decodeHeaders(h nats.Header) map[string]string {
	headers := make(map[string]string, len(h))
	for k, v := range h {
		if len(v) > 0 && !isServers(k) && k != headerExact {
			headers[k] = v[0]
		}
	}
	if packed := h[headerExact]; len(packed) > 0 {
		var exact map[string]string
		if json.Unmarshal([]byte(packed[0]), &exact) == nil {
			for k, v := range exact {
				headers[k] = v
			}
		}
	}
	return headers
}

func isServers(name string) bool {
	return len(name) >= len(serverPrefix) && strings.EqualFold(name[:len(serverPrefix)], serverPrefix)
}
