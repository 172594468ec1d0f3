package direct

import "sync/atomic"

// Stats count events since the Sender was made.
type Stats struct {
	// Sent were acknowledged at once. Stored are in the outbox; of these Unasked
	// were not shown to the broker, because it had failed before, there was no
	// room, or they are not due yet. Lost are those for which Send returned a
	// LostError.
	Sent, Stored, Unasked, Lost int64
	// Resting is true while the broker is not asked.
	Resting bool
}

type counters struct{ sent, stored, unasked, lost atomic.Int64 }
