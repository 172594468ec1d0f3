package bridge

import (
	"context"
	"time"
)

// Store keeps letters in a service's database, once each, and hands out what
// people have ordered to be replayed. Its writes are fenced: of all processes
// one holds a group's lease, and only that one can keep and mark.
type Store interface {
	// Lead takes the lease of a group that is free or run out, or renews the one
	// that owner holds, by the database's clock. Lease.Held says whether owner
	// holds it. A lease that was renewed has the epoch that it had; one that was
	// taken has a higher one than any before.
	Lead(ctx context.Context, group, owner string, ttl time.Duration) (Lease, error)
	// Resign gives a lease back, so that another need not wait for its end.
	Resign(ctx context.Context, l Lease) error

	// Keep stores letters of the lease's group, in one transaction, and returns
	// how many are new: those whose identity the group has are passed over. On a
	// nil error all of them are durable. A letter that has the return id of
	// another one, or else the event id of one that was replayed, names that as
	// the one before. It returns settle.ErrFenced when another owner holds the
	// lease.
	//
	// Crash here: a crash inside leaves all of them or none; they come again.
	Keep(ctx context.Context, l Lease, letters []Letter) (fresh int, err error)

	// Ordered returns at most limit replays that are due, oldest letter first, and
	// when the next one is due (zero: none waits). It needs no lease: whoever acts
	// on the answer needs one to mark it.
	Ordered(ctx context.Context, group string, limit int) (Ordered, error)
	// Mark records what became of replays, in one transaction. One that is not
	// REPLAYING any more is passed over. It returns settle.ErrFenced when another
	// owner holds the lease.
	Mark(ctx context.Context, l Lease, marks []Mark) error
}

// Lease is the right to bridge one group.
type Lease struct {
	Group, Owner string
	Epoch        int64
	Held         bool
	// Expires is when it ends unless it is renewed, by this process's clock.
	Expires time.Time
}

// Ordered is an answer of Store.Ordered.
type Ordered struct {
	Orders []Order
	Next   time.Time
}

// Order is a replay that a person has ordered. Return.ID is the same for all
// that is ever ordered of one letter.
type Order struct {
	// ID is that of the dead letter, govern.DeadLetter.ID.
	ID     int64
	Return Return
	// Tries were made before, without an end.
	Tries int
}

// Mark is what became of one try of an order.
type Mark struct {
	ID     int64
	Result Result
	// Tries made so far, this one included.
	Tries int
	// NextAt is when it is tried again, for ResultAgain.
	NextAt time.Time
	// Cause says why it has not come about; empty for ResultReturned.
	Cause string
}

// Result is how a try of an order ended.
type Result int

// The results.
const (
	// ResultReturned: the broker has it; the dead letter is REPLAYED.
	ResultReturned Result = iota
	// ResultAgain: it is tried again at Mark.NextAt.
	ResultAgain
	// ResultGivenUp: the dead letter is OPEN again, and says why.
	ResultGivenUp
)
