package relay

import "github.com/settlemq/settle"

// Input is something that has happened: the answer to a command, or a sign
// from outside. The first input of a machine is Tick.
type Input interface{ input() }

// Elected answers Lead. Lease.Held is false while another leads.
type Elected struct{ Lease Lease }

// Resigned answers Resign.
type Resigned struct{}

// Loaded answers Load.
type Loaded struct{ State State }

// Polled answers Poll, with what was asked.
type Polled struct {
	Destination string
	Query       PollQuery
	Page        Page
}

// SideLoaded answers ReadSide, with what was asked.
type SideLoaded struct {
	Query SideQuery
	Page  SidePage
}

// Published answers Publish: one receipt per message, by index. An answer to
// a batch that the machine has forgotten (it lost the lease meanwhile) is
// taken note of and changes nothing else.
type Published struct {
	Batch    int64
	Receipts []settle.Receipt
}

// Committed answers Commit: the flush is durable.
type Committed struct{ ID int64 }

// OwnersSeen answers AskOwners.
type OwnersSeen struct{ Evidence Evidence }

// Swept answers Sweep with how many late rows were listed as extra.
type Swept struct{ Found int }

// Retained answers Retain with how many rows went.
type Retained struct{ Rows int }

// ControlsLoaded answers LoadControls.
type ControlsLoaded struct{ Controls Controls }

// Failed answers any command but Publish that returned an error.
type Failed struct {
	Command Command
	Err     error
}

// Woken says that something may have been appended: poll now.
type Woken struct{}

// Tick says that time has passed; see WaitUntil. A Tick that comes early, or
// that nobody asked for, is harmless.
type Tick struct{}

// Stopping asks for the end: what is in flight is waited for, what was
// acknowledged is committed, the lease is given back, then comes Halt.
type Stopping struct{}

func (Elected) input()        {}
func (Resigned) input()       {}
func (Loaded) input()         {}
func (Polled) input()         {}
func (SideLoaded) input()     {}
func (Published) input()      {}
func (Committed) input()      {}
func (OwnersSeen) input()     {}
func (Swept) input()          {}
func (Retained) input()       {}
func (ControlsLoaded) input() {}
func (Failed) input()         {}
func (Woken) input()          {}
func (Tick) input()           {}
func (Stopping) input()       {}
