package nats

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/settlemq/settle/bridge"
)

// Subjects on which a server says, once and to whoever listens, that a consumer has
// given up a message: it came as often as its max_deliver allows, or was terminated.
const (
	exceededPrefix   = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES."
	terminatedPrefix = "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED."
)

// advisory is what a server says of a message that was given up.
type advisory struct {
	ID         string    `json:"id"`
	At         time.Time `json:"timestamp"`
	Stream     string    `json:"stream"`
	Consumer   string    `json:"consumer"`
	Sequence   int64     `json:"stream_seq"`
	Deliveries int       `json:"deliveries"`
	Reason     string    `json:"reason"`
}

// parseAdvisory reads one of a stream's consumer. Who may publish to its subject can
// write anything there.
func parseAdvisory(data []byte, stream, consumer string) (advisory, error) {
	var a advisory
	if err := json.Unmarshal(data, &a); err != nil {
		return a, fmt.Errorf("it is no advisory: %w", err)
	}
	if a.Stream != stream || a.Consumer != consumer || a.Sequence <= 0 || a.Deliveries < 0 || a.At.IsZero() || !isAdvisoryID(a.ID) {
		return a, fmt.Errorf("it is no advisory of consumer %q of stream %q", consumer, stream)
	}
	return a, nil
}

// isAdvisoryID reports whether an id can be part of a letter's identity.
func isAdvisoryID(id string) bool {
	for _, c := range []byte(id) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return id != "" && len(id) <= bridge.MaxIdentity/2
}
