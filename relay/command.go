package relay

import (
	"time"

	"github.com/settlemq/settle"
)

// Command is something that the machine wants done. Each command but
// WaitUntil and Halt is answered by exactly one input: the one named in its
// comment, or Failed with the command itself. At most one command of each
// kind is unanswered at any time, save Publish (one per destination).
//
// A runner may run store commands in the order it was given them, one after
// the other, and answers in that order; publishes run beside them. It keeps
// nothing of a command after it has answered it.
type Command interface{ command() }

// Lead takes or renews the lease. Answered by Elected.
type Lead struct {
	Owner string
	Lane  int
	TTL   time.Duration
	// Renew is true while the lease is held: there is no time to lose.
	Renew bool
}

// Resign gives the lease back, for ever if Lease.Ended. Answered by Resigned.
type Resign struct{ Lease Lease }

// Load reads all that a new leader must know. Answered by Loaded.
type Load struct{ Lease Lease }

// Poll reads a page of the log for one reader: Destination is "" for the main
// reader. Answered by Polled.
type Poll struct {
	Destination string
	Query       PollQuery
}

// ReadSide reads rows of a side table. Answered by SideLoaded.
type ReadSide struct{ Query SideQuery }

// Publish hands a batch to the broker, all of it for one destination.
// Answered by Published with one receipt per message; never by Failed: what
// the broker did not answer within Timeout is a receipt with an error.
type Publish struct {
	// Batch names the batch in its answer. It is not used again.
	Batch int64
	// Broker is the name of the destination's broker, "" for the default one. The
	// messages' topics are those there.
	Broker      string
	Destination string
	Messages    []settle.Message
	// Timeout ends the call; it is shorter than what is left of the lease.
	Timeout time.Duration
}

// Commit writes a flush. Answered by Committed. A Failed that is not
// settle.ErrFenced means that the outcome is not known: the machine loads
// again.
type Commit struct {
	ID    int64
	Lease Lease
	Flush Flush
}

// AskOwners asks for the transactions that may own a missing id. Answered by
// OwnersSeen.
type AskOwners struct{ Before Evidence }

// Sweep looks for rows behind cold holes. Answered by Swept.
type Sweep struct {
	Lease Lease
	Limit int
}

// Retain deletes what is done and older than Before (zero: no row, only old
// checkpoints and renewals). Answered by Retained.
type Retain struct {
	Lease  Lease
	Before time.Time
	Limit  int
}

// LoadControls reads pauses and skips. Answered by ControlsLoaded.
type LoadControls struct{}

// WaitUntil asks for a Tick at At, unless another input comes first. It holds
// until the next Step, which says anew. Without it the machine waits for
// answers only. It has no answer of its own.
type WaitUntil struct {
	At time.Time
	// Idle is true when nothing but a new event is waited for: a doorbell may
	// end the wait with Woken.
	Idle bool
}

// Halt ends the machine: the runner returns Err and makes no further Step.
// ErrLaneEnded is no failure.
type Halt struct{ Err error }

func (Lead) command()         {}
func (Resign) command()       {}
func (Load) command()         {}
func (Poll) command()         {}
func (ReadSide) command()     {}
func (Publish) command()      {}
func (Commit) command()       {}
func (AskOwners) command()    {}
func (Sweep) command()        {}
func (Retain) command()       {}
func (LoadControls) command() {}
func (WaitUntil) command()    {}
func (Halt) command()         {}
