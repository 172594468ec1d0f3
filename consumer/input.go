package consumer

import (
	"time"

	"github.com/settlemq/settle"
)

// Input is something that has happened: a delivery, an answer to a Command, or
// time that has passed. The runner passes inputs one at a time, in the order
// in which it learned of them; the first one is a Tick.
type Input interface{ input() }

// DeliveryID names one call of Sink.Deliver. The runner chooses it; it is not
// used twice.
type DeliveryID int64

// WorkID names one Apply. The machine chooses it; it rises.
type WorkID int64

// Delivered says that a partition's next records are here. At most one
// delivery per partition is unanswered at a time. It is answered by exactly
// one Complete; until then the machine may keep Records, which are not changed.
type Delivered struct {
	ID        DeliveryID
	Partition settle.Partition
	Records   []settle.Record
}

// Withdrawn says that the caller of Deliver has given up (its context is
// done). The delivery is still answered by Complete: at once when nothing of
// it is being applied, otherwise when that has ended. Unknown ids are ignored.
type Withdrawn struct{ ID DeliveryID }

// Claimed says that this member owns a partition. It is passed for every
// renewal too, and before the first delivery under a new epoch.
type Claimed struct{ Claim settle.Claim }

// Lost says that this member owns a partition no more (its lease ran out, or
// another epoch was seen). Its delivery is answered with settle.ErrFenced.
type Lost struct {
	Topic  string
	Number int
}

// Applied answers Apply.
type Applied struct {
	ID WorkID
	// Results has one result per item of the work. It is empty when Err is set.
	Results []settle.Result
	// Err is the error of Inbox.Apply: nothing is known to be durable.
	Err error
	// BatchErr is the error of a batch handler, which speaks of all events it
	// was given: nothing of the work was kept.
	BatchErr error
	// Times says how long handlers ran, by event type; it shrinks the works
	// that follow slow ones. It may be empty.
	Times []HandlerTime
}

// HandlerTime is the time spent in the handler of one event type, or in its
// compensation.
type HandlerTime struct {
	Type         string
	Calls        int
	Took         time.Duration
	Compensation bool
}

// DueLoaded answers LoadDue.
type DueLoaded struct {
	Due settle.Due
	Err error
}

// ControlsLoaded answers LoadControls.
type ControlsLoaded struct {
	Controls settle.Controls
	Err      error
}

// Attended answers Attend.
type Attended struct {
	Departed settle.Departed
	Err      error
}

// Forgotten answers Forget.
type Forgotten struct {
	Rows int
	Err  error
}

// Tick says that time has passed. It is harmless at any time.
type Tick struct{}

// Stopping asks the machine to end: no new Apply is issued, deliveries that
// are not being applied are answered with ErrStopping at once, the others when
// their Apply has ended. The command Stopped follows when nothing is left.
type Stopping struct{}

func (Delivered) input()      {}
func (Withdrawn) input()      {}
func (Claimed) input()        {}
func (Lost) input()           {}
func (Applied) input()        {}
func (DueLoaded) input()      {}
func (ControlsLoaded) input() {}
func (Attended) input()       {}
func (Forgotten) input()      {}
func (Tick) input()           {}
func (Stopping) input()       {}
