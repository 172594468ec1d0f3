package halflog

import (
	"time"

	"github.com/settlemq/settle/txmsg"
)

// Side is t_dead_letter.service_side of an event that was sent as a half message.
const Side = "txmsg"

// States of a record.
const (
	StateCommitted  = "COMMITTED"
	StateConfirmed  = "CONFIRMED" // the broker delivers it
	StateRolledBack = "ROLLED_BACK"
	StateDead       = "DEAD"
	StateDiscarded  = "DISCARDED"
)

// Verdict is what a record in this state says. What a person has discarded is not
// delivered any more.
func Verdict(state string) txmsg.Verdict {
	switch state {
	case StateCommitted, StateConfirmed, StateDead:
		return txmsg.Commit
	case StateRolledBack, StateDiscarded:
		return txmsg.Rollback
	}
	return txmsg.Unknown
}

// AskedBy names who has asked.
func AskedBy(byBroker bool) string {
	if byBroker {
		return "broker"
	}
	return "sender"
}

// NotCompensated is why a dead letter of this side can't be compensated.
const NotCompensated = "nobody has received it, so no group has anything of it to undo; replay it, or discard it"

// NoRecord is why one can't be replayed.
const NoRecord = "its record is not there any more; append the event to the outbox, and discard it"

// Decide is how long a person has to decide about a dead letter.
const Decide = 24 * time.Hour

// GivenUp is the reason of a dead letter.
func GivenUp(cause string) string {
	return Cause("the event is committed, and the broker does not take it: " + cause)
}
