package txmsg

import (
	"context"
	"time"

	"github.com/settlemq/settle"
)

// Record is what a database keeps of a half message whose local transaction has
// committed.
type Record struct {
	// ID is that of the transaction.
	ID     string
	Handle Handle
	// Event is kept whole, so that it can be sent again.
	Event *settle.Event
	// SweepAfter is how long after the insert the record is swept up unless the
	// broker has confirmed its message.
	SweepAfter time.Duration
}

// Inquiry asks what became of a transaction.
type Inquiry struct {
	ID string
	// EventID, EventType, Key and Topic are kept of one that has no record.
	EventID, EventType, Key, Topic string
	// Times is the broker's count; ByBroker is false when the sender itself asks,
	// of a commit whose outcome it does not know or of what it has rolled back.
	Times    int
	ByBroker bool
	// Owner names the process that answers; Cause says why it is asked, if the
	// sender knows.
	Owner, Cause string
}

// Answered is an answer that no row decides, to be kept beside those that one
// does.
type Answered struct {
	Inquiry
	Verdict Verdict
	// At is when it was given.
	At time.Time
}

// Outcome is how a local transaction ended.
type Outcome int

// The outcomes.
const (
	// RolledBack: nothing of it is there or can come.
	RolledBack Outcome = iota
	// Committed: record and business rows are durable.
	Committed
	// InDoubt: the database has not said.
	InDoubt
)

// Open is a record whose message no broker has confirmed.
type Open struct {
	Record
	// Tries of sweeping it up that were counted.
	Tries int
}

// Result is what came of sweeping up a record.
type Result int

// The results.
const (
	// ResultAgain: it is tried again after Mark.Wait.
	ResultAgain Result = iota
	// ResultMoved: the message was sent again and lies under Mark.Handle.
	ResultMoved
	// ResultGivenUp: it is a dead letter.
	ResultGivenUp
)

// Mark notes a result.
type Mark struct {
	ID     string
	Result Result
	Tries  int
	Wait   time.Duration
	Handle Handle
	Class  settle.Class
	Cause  string
}

// Ledger is what a database knows of half messages. Its clock decides. All calls
// write, so none can be answered by a standby.
type Ledger interface {
	// Scope names this database among all that may use the same group of
	// producers; it never changes. It has no dot.
	Scope(ctx context.Context) (string, error)
	// Judge inserts a record of a roll-back under the id, and returns what stands
	// there now: Rollback if it did so or had done so before, Commit if there is a
	// committed record. It returns Unknown, and no error, when the transaction
	// that holds the id does not end within the database's time for waiting. A
	// verdict but Unknown is durable, and so is the record of having been asked.
	Judge(ctx context.Context, q Inquiry) (Verdict, error)
	// Note keeps answers that no row decides.
	Note(ctx context.Context, answers []Answered) error
	// Confirm notes that the broker has committed these messages; a dead letter of
	// one is REPLAYED with that. Ids without a record are passed over.
	Confirm(ctx context.Context, ids []string) error
	// Due claims at most limit committed records that are due to be swept up, the
	// longest due first, and puts them off by hold, so that no other process has
	// them meanwhile.
	Due(ctx context.Context, limit int, hold time.Duration) ([]Open, error)
	// Mark notes a result. One that is confirmed, or a dead letter, stays so.
	Mark(ctx context.Context, m Mark) error
	// Purge deletes at most limit records that have ended longer than keep ago,
	// confirmed, rolled back or discarded, and at most limit answers that are as
	// old. It returns how many of the one or the other, whichever are more: limit
	// says that there may be more of them.
	Purge(ctx context.Context, keep time.Duration, limit int) (int, error)
}

// Store is a Ledger that carries out local transactions. Tx is the driver's own
// type.
type Store[Tx any] interface {
	Ledger
	// Transact inserts the record, calls f in the same transaction and commits.
	// When f returns an error or panics, it rolls back: RolledBack, and the error
	// or the panic comes out. An error of the database is RolledBack where it is
	// certain that nothing was committed, else InDoubt. Committed has no error.
	//
	// Crash here: before the commit neither record nor business rows are there,
	// after it both, and the check-back says so.
	Transact(ctx context.Context, r Record, f func(ctx context.Context, tx Tx) error) (Outcome, error)
}
