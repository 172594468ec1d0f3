package consumer

import (
	"time"

	"github.com/settlemq/settle"
)

// Command is something the runner has to do. The slice that Step returns is
// valid until the next Step. Commands that are answered may be run in any
// order and concurrently; the others are done before the next Step.
type Command interface{ command() }

// Apply runs one transaction: Inbox.Apply with Work. It is answered by exactly
// one Applied. Works in flight at the same time share no key and no partition.
// Work belongs to the runner until it has answered.
type Apply struct {
	ID   WorkID
	Work settle.Work
	// Batch, when not empty, is the event type whose batch handler takes all
	// the events of this work that are to be handled in one call.
	Batch string
	// Alone means that the handler has effects outside the database: Work has
	// this one event to handle and nothing else to lose.
	Alone bool
	// Hold means that Inbox.Hold writes the events that Work handles down first;
	// when it fails, its error answers in Apply's place.
	Hold bool
}

// Complete ends a call of Sink.Deliver: nil acknowledges its records, all of
// which are durably dealt with; with an error they will be delivered again.
//
// Crash here: what was applied is delivered again from the last floor or
// acknowledgement and found in the consume log.
type Complete struct {
	ID  DeliveryID
	Err error
}

// LoadDue asks for Inbox.Due with Limit. It is answered by one DueLoaded; at
// most one is unanswered at a time.
type LoadDue struct{ Limit int }

// LoadControls asks for Inbox.Controls. It is answered by one ControlsLoaded;
// at most one is unanswered at a time.
type LoadControls struct{}

// Attend asks for Inbox.Attend. It is answered by one Attended; at most one is
// unanswered at a time.
type Attend struct{}

// Forget asks for Inbox.Forget. It is answered by one Forgotten; at most one
// is unanswered at a time.
type Forget struct {
	Before time.Time
	Limit  int
}

// WaitUntil asks for a Tick at the given time. It replaces an earlier one;
// zero means that no Tick is needed.
type WaitUntil struct{ At time.Time }

// Note tells people that a state has changed: one line in the log. It has no
// answer and no effect on what follows.
type Note struct {
	// State is what has changed: store, breaker, group, suspect or batch.
	State string
	// Now is the new state: down, up, open, closed, paused, resumed …
	Now string
	// Name is the event type or partition it speaks of, if any.
	Name string
	// Err is the cause, if there is one.
	Err error
}

// Halt ends the group with Err, which no waiting can cure
// (settle.ErrNewGeneration). Deliveries are answered as after Stopping.
type Halt struct{ Err error }

// Stopped says that nothing is in flight and every delivery is answered. No
// command follows it but the Complete of a delivery that comes even later.
type Stopped struct{}

func (Apply) command()        {}
func (Complete) command()     {}
func (LoadDue) command()      {}
func (LoadControls) command() {}
func (Attend) command()       {}
func (Forget) command()       {}
func (WaitUntil) command()    {}
func (Note) command()         {}
func (Halt) command()         {}
func (Stopped) command()      {}
