package sim

import (
	"github.com/settlemq/settle"
	"github.com/settlemq/settle/consumer"
)

// story is what a world is about: who writes events and why, what handlers make
// of them, and what must have come of it. The machines know nothing of it.
type story interface {
	// plan schedules what people and producers do in the first phase.
	plan()
	// rules says which event types a group handles, and how.
	rules(g *groupSetup) map[string]consumer.HandlerRule
	// handle is a group's handler, or its compensation, in the transaction of x.
	// It is called once the event's fate lets it.
	handle(x *inboxModel, it *settle.Item) error
	// committed is called when a transaction of x has committed.
	committed(x *inboxModel)
	// blames reports whether a group's dead letter of a failed handler is the
	// story's doing.
	blames(x *inboxModel, l *letter) bool
	// decide is a person's answer to an open dead letter of a group.
	decide(x *inboxModel, l *letter)
	// discards reports whether a person lets go of an event that the relay could
	// not send.
	discards() bool
	// unsettled names what has not come to its end.
	unsettled(say func(string, ...any))
	// end checks what must hold when all is settled, and may go on from there.
	end()
}
