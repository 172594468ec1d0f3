package direct

import "fmt"

// Outcome is what became of an event.
type Outcome int

// Outcomes of Send.
const (
	// Lost: it was neither acknowledged nor stored; see LostError.
	Lost Outcome = iota
	// Sent: the broker holds it.
	Sent
	// Stored: the outbox holds it, and its relay sends it. The broker may have it
	// besides, if it did not answer in time.
	Stored
)

// LostError means that nothing is known to hold an event. Where Unknown is false
// the broker does not have it. To send the same event again is safe: its id tells
// consumers a second copy.
type LostError struct {
	EventID, EventType, Key string
	// Unknown means that the broker was asked and may hold it.
	Unknown bool
	// Sending and Storing are why neither was done.
	Sending, Storing error
}

func (l *LostError) Error() string {
	fate := "it is nowhere"
	if l.Unknown {
		fate = "the broker may have it all the same"
	}
	return fmt.Sprintf("event %s of type %q, key %q, was neither sent (%v) nor stored (%v): %s; send it again, with the same id", l.EventID, l.EventType, l.Key, l.Sending, l.Storing, fate)
}

func (l *LostError) Unwrap() []error { return []error{l.Sending, l.Storing} }
