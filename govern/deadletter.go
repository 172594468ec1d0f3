package govern

import (
	"context"
	"time"

	"github.com/settlemq/settle"
)

// States of a dead letter.
const (
	StateOpen         = "OPEN"
	StateReplaying    = "REPLAYING"    // a replay was asked for; the outcome is not known yet
	StateReplayed     = "REPLAYED"     // the replay took effect
	StateCompensating = "COMPENSATING" // a compensation was asked for; the outcome is not known yet
	StateCompensated  = "COMPENSATED"  // the event was given up, and its compensation is done
	StateDiscarded    = "DISCARDED"
	StateSuperseded   = "SUPERSEDED" // an edited event took its place
)

// DeadLetter is an event that can't go on without a person. Group is empty
// for one of the relay (the broker refused the event).
type DeadLetter struct {
	ID        int64        `json:"id"`
	Service   string       `json:"service"`
	Group     string       `json:"consumer_group,omitempty"`
	EventID   string       `json:"event_id"`
	EventType string       `json:"event_type"`
	Key       string       `json:"aggregate_id"`
	BizKey    string       `json:"biz_key,omitempty"`
	TraceID   string       `json:"trace_id,omitempty"`
	Class     settle.Class `json:"class"`
	Reason    string       `json:"reason"`
	Attempts  int          `json:"attempts"`
	State     string       `json:"state"`
	OpenedAt  time.Time    `json:"opened_at"`
	DueAt     time.Time    `json:"due_at"`
	ClosedAt  *time.Time   `json:"closed_at,omitempty"`
	ClosedBy  string       `json:"closed_by,omitempty"`
	Topic     string       `json:"topic,omitempty"`
	Partition int          `json:"partition"`
	Offset    int64        `json:"offset"`
	// Behind counts events of the same key that wait for this one.
	Behind int `json:"behind"`
	// Foreign is true for one of a consumer that is not ours, which a bridge has
	// brought in: nothing waits for it. REPLAYED says of it that the broker has
	// it again; what its consumer does then is not known here. One that dies
	// again is another dead letter. Bridged says more; Show returns it, List does
	// not.
	Foreign bool     `json:"foreign,omitempty"`
	Bridged *Bridged `json:"bridged,omitempty"`
	// Transaction is the id of the half message of an event that went as one; its
	// local transaction has committed, and the broker has not taken the event.
	// Empty for all others.
	Transaction string `json:"transaction,omitempty"`
	// Raw is the record's value as found; Payload the event's payload. Show
	// returns them, List does not.
	Raw     []byte            `json:"raw,omitempty"`
	Payload []byte            `json:"payload,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// Filter selects dead letters. Empty fields select all.
type Filter struct {
	State     string // defaults to OPEN; "any" for all
	Group     string
	EventType string
	Class     settle.Class
	// Key matches the aggregate id, the business key, the event id or the
	// trace id.
	Key   string
	IDs   []int64
	After int64 // keyset: ids above it
	Limit int   // defaults to 100
}

// Act says who does something and why; it becomes an audit row in the same
// transaction as the act.
type Act struct {
	By     string
	Reason string
}

// Outcome is what became of one dead letter in an act.
type Outcome struct {
	ID int64 `json:"id"`
	// Result is done or refused.
	Result string `json:"result"`
	Why    string `json:"why,omitempty"`
}

// ReplayOptions change how a replay treats what it finds.
type ReplayOptions struct {
	// AcceptPossibleDuplicate replays an event older than the dedup window, and
	// one whose compensation was tried and failed: an outside system that has
	// only not answered may carry it out yet. Without it they are refused.
	AcceptPossibleDuplicate bool
	// To is how far a dead letter of a consumer that is not ours goes back.
	// Defaults to its group alone; for any other dead letter it must be empty.
	To Target
}

// DeadLetters is what one service's database keeps of them.
type DeadLetters interface {
	// DeadLetters lists by id, oldest first.
	DeadLetters(ctx context.Context, f Filter) ([]DeadLetter, error)
	// DeadLetter returns one with its bytes, or ErrNotFound.
	DeadLetter(ctx context.Context, id int64) (DeadLetter, error)
	// Replay makes dead letters due again, from their first attempt, and
	// audits it in the same transaction. One outcome per id: an id that is not
	// OPEN is refused. The state becomes REPLAYED by whoever applies it, or, for
	// one of a consumer that is not ours, by the bridge that sends it back.
	Replay(ctx context.Context, a Act, o ReplayOptions, ids ...int64) ([]Outcome, error)
	// Compensate gives up on dead letters of consumer groups: the compensation
	// of their event type runs in place of the handler, as a replay would run
	// that, and what is behind goes on once it is done. It is audited in the
	// same transaction; a.Reason is required. One outcome per id: an id that is
	// not OPEN, whose record can't be understood, or whose consumer is not ours,
	// is refused. A group that
	// has no compensation for the event type opens the dead letter again.
	Compensate(ctx context.Context, a Act, ids ...int64) ([]Outcome, error)
	// Discard closes dead letters for good, lets those behind them go on, and
	// audits it. a.Reason is required.
	Discard(ctx context.Context, a Act, ids ...int64) ([]Outcome, error)
}
