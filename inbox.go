package settle

import (
	"context"
	"time"
)

// Inbox is where a consumer group records what it has done, in the database
// (and the transaction) of the business. Tx is the driver's own type.
//
// Tables: t_message_consume_log (unique by group and event id),
// t_consume_retry (parked and failed events, in order per key), t_dead_letter,
// t_consume_partition (owner, epoch, floor), t_consume_member (who lives and what
// it has in hand).
type Inbox[Tx any] interface {
	// Apply does w.Items in order: for each it inserts the consume-log row
	// first, decides by what is there (see Verdict), runs handle for those that
	// are new, and records parks and deaths. The floors of w move in the same
	// transaction, and only if owner and epoch still hold.
	//
	// handle runs with the transaction of item i and must not commit, roll back
	// or keep it. When it returns an error that is not a *RejectError, or
	// panics, nothing of that item is kept; whether other items are kept too
	// is told by each Result: a database that shares one transaction keeps
	// none of them (VerdictNotRun), one with a transaction per item keeps what
	// it could, but never a later item of the same key.
	//
	// On a nil error all items but VerdictFailed and VerdictNotRun are durable
	// (flushed) and may be acknowledged. On an error nothing is known to be
	// durable and all are to be delivered again: ErrFenced, ErrNewGeneration,
	// or the database's own.
	//
	// Crash here: a crash inside Apply leaves an item wholly done or wholly
	// undone; the record is delivered again and the log row tells which.
	Apply(ctx context.Context, w Work, handle func(ctx context.Context, tx Tx, i int) error) ([]Result, error)

	// Due returns what may be tried now from t_consume_retry of group: for each
	// key its due head and what follows in order, at most limit in all, and the
	// time when the next head is due (zero: none waits). Where several processes
	// may consume one database at a time, what one member was given no other is
	// until its time is over or it leaves, so that an attempt is one member's.
	Due(ctx context.Context, group string, limit int) (Due, error)

	// Claim and Release lease partitions of topic to owner; see Ownership.
	Claim(ctx context.Context, r ClaimRequest) ([]Claim, error)
	// Release gives partitions back and ends the attendance, cleanly, so that
	// another member need not wait for the lease and sees no death.
	Release(ctx context.Context, group, owner string) error
	// RaiseFloor moves an idle partition's floor; ErrFenced if it is not ours.
	RaiseFloor(ctx context.Context, group string, p Partition, to Floor) error

	// Attend says for r.TTL that a member lives whose partitions the broker
	// assigns, and returns what is known of those that ended without Release.
	Attend(ctx context.Context, r Attendance) (Departed, error)
	// Hold writes down what a member has in hand, in place of what it had in
	// that slot, before it handles it. On a nil error others read it should the
	// process die; it need not outlive the database's.
	Hold(ctx context.Context, h Hand) error

	// Forget sets group's dedup floor to before and deletes at most limit log
	// rows of events appended before it. From then on an event appended before
	// it that is not in the log is VerdictBeyondWindow. It returns how many
	// rows went.
	Forget(ctx context.Context, group string, before time.Time, limit int) (int, error)

	// Controls returns what people have paused, with a version that changes
	// whenever they do.
	Controls(ctx context.Context) (Controls, error)
}

// Work is what one Apply does.
type Work struct {
	Group string
	Items []Item
	// Floors to move with the work; at most one per partition.
	Floors []FloorMove
	// Pass lets later events of a key go ahead of a failed one. Defaults to
	// false: the key is blocked.
	Pass bool
	// OrderedBySeq makes the group follow AggregateSeq strictly: see
	// VerdictOutOfSequence and VerdictSequenceGap.
	OrderedBySeq bool
	// GapTimeout is how long an event with a gap before it waits. Used with
	// OrderedBySeq only.
	GapTimeout time.Duration
	// TakeoverAfter is how old a left-over row (PROCESSING or FAILED, written
	// by a foreign consumer) must be before it is taken over. Zero means 15 min.
	TakeoverAfter time.Duration
	// BeforeCommit, when not nil, is called in each transaction of the work
	// after its last item and before its commit, with a context in which the
	// transaction lives. An error rolls that transaction back: its items are
	// VerdictNotRun, and Apply returns nil as it does after a failed handler.
	BeforeCommit func(ctx context.Context) error
}

// FloorMove moves the floor of an owned partition.
type FloorMove struct {
	Partition Partition
	To        Floor
}

// Intent is what the consumer wants done with an item.
type Intent int

const (
	// IntentHandle runs the handler.
	IntentHandle Intent = iota
	// IntentIgnore records nothing but counts: a type the group does not
	// handle. With OrderedBySeq it advances the sequence.
	IntentIgnore
	// IntentPark stores the event in the retry store with Attempt, NextAt and
	// Cause, without running the handler.
	IntentPark
	// IntentDie stores the event as a dead letter, without running the handler.
	IntentDie
)

// Item is one event in the hands of the consumer.
type Item struct {
	Record Record
	Intent Intent
	// RetryID is the row of t_consume_retry this came from; 0 for a record
	// from the broker. Handling it deletes the row, parking it updates the row.
	RetryID int64
	// EffectKey, when not empty, makes (group, event type, EffectKey) unique:
	// a second event with it is a duplicate.
	EffectKey string
	// Attempt counts attempts made, this one included.
	Attempt int
	NextAt  time.Time
	// Class and Cause say why it is parked or dead.
	Class Class
	Cause string
	// AcceptDuplicate lets a replay pass the dedup floor.
	AcceptDuplicate bool
	// Compensate says that a person has given up on the event: what runs in
	// place of its handler is its compensation, and it ends as COMPENSATED, by
	// whom and why, with no effect that an effect key holds. Due sets it; an item
	// of the retry store for which a person has wished otherwise since is
	// VerdictStored.
	Compensate bool
}

// Class is the coarse kind of a failure; it becomes the dead letter's class.
type Class string

// Classes of failures.
const (
	ClassHandler       Class = "handler_error"       // attempts exhausted
	ClassPermanent     Class = "permanent"           // the handler said so
	ClassPanic         Class = "panic"               // the handler panicked
	ClassDecode        Class = "undecodable"         // cut, foreign, not an envelope
	ClassVersion       Class = "unknown_version"     // no upcaster for its version
	ClassBeyondWindow  Class = "beyond_dedup_window" // older than the dedup floor
	ClassOutOfSequence Class = "out_of_sequence"     // its place was passed
	ClassSequenceGap   Class = "sequence_gap"        // what is before it never came
	ClassCrashLoop     Class = "kills_process"       // process died n times with it in hand
	ClassSuspect       Class = "suspect"             // in hand when a process died; tried alone
	ClassFollower      Class = "behind_failed"       // waits behind a failed event of its key
	ClassPaused        Class = "paused"              // a person paused its key
	ClassLeftOver      Class = "left_over"           // a foreign consumer's unfinished row; waits for takeover
	ClassPublish       Class = "publish_refused"     // the broker refused it
	ClassRowDeleted    Class = "row_deleted"         // its outbox row is gone
	ClassInvalid       Class = "invalid_event"       // can't be encoded or routed
)

// Verdict is what Apply found or did.
type Verdict int

const (
	// VerdictApplied: the handler, or the compensation, ran and its effect is
	// durable.
	VerdictApplied Verdict = iota
	// VerdictRejected: it returned Reject; recorded.
	VerdictRejected
	// VerdictIgnored: not handled by this group.
	VerdictIgnored
	// VerdictDuplicate: done before.
	VerdictDuplicate
	// VerdictStored: parked or dead already, or wished otherwise; nothing to do.
	VerdictStored
	// VerdictParked: stored in the retry store by IntentPark.
	VerdictParked
	// VerdictBlocked: parked behind a failed event of its key.
	VerdictBlocked
	// VerdictDead: stored as a dead letter by IntentDie.
	VerdictDead
	// VerdictBeyondWindow: older than the dedup floor; a dead letter.
	VerdictBeyondWindow
	// VerdictOutOfSequence: its place in the sequence was passed; a dead letter.
	VerdictOutOfSequence
	// VerdictSequenceGap: parked until what is before it has come.
	VerdictSequenceGap
	// VerdictLeftOver: a foreign row that is not final; parked until takeover.
	VerdictLeftOver
	// VerdictFailed: the handler failed (Result.Err); nothing of it was kept.
	VerdictFailed
	// VerdictNotRun: rolled back, or not reached, because of another item.
	VerdictNotRun
)

// Durable reports whether an item with this verdict may be acknowledged.
func (v Verdict) Durable() bool { return v < VerdictFailed }

// Result is what became of the item with the same index.
type Result struct {
	Verdict Verdict
	Err     error
	// Panic holds the stack when the handler panicked.
	Panic string
}

// Due is an answer of Inbox.Due. Items have RetryID, Attempt (attempts made so
// far), Class, Cause and Compensate set, in order per key.
type Due struct {
	Items []Item
	Next  time.Time
}

// ClaimRequest asks for a fair share of a topic's partitions.
type ClaimRequest struct {
	Group, Topic, Owner string
	// Partitions is how many the topic has.
	Partitions int
	TTL        time.Duration
}

// Attendance is the sign of life of a member whose partitions the broker
// assigns. Owner names one life of it: a process that starts anew has another.
type Attendance struct {
	Group, Owner string
	TTL          time.Duration
	// Remember is how long one that ended without Release is told of.
	Remember time.Duration
}

// Departed are the members that ended without Release and are remembered.
type Departed struct {
	Deaths int
	// InHand are the ids of the events that they had written down.
	InHand []string
}

// Hand is what a member has in hand. Each worker of it has a slot, from 1 on.
type Hand struct {
	Group, Owner string
	Slot         int
	EventIDs     []string
}

// Controls are the acts of people that every process obeys.
type Controls struct {
	Version int64
	Rows    []Control
}

// Control is one pause. Kind is relay, topic, group or key; Name is which
// (for a key: group/key at a consumer, key at a relay).
type Control struct {
	Kind, Name string
}

// Paused reports whether the control row (kind, name) is there.
func (c Controls) Paused(kind, name string) bool {
	for _, r := range c.Rows {
		if r.Kind == kind && r.Name == name {
			return true
		}
	}
	return false
}
