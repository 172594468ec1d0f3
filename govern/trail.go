package govern

import (
	"context"
	"time"

	"github.com/settlemq/settle"
)

// Stages of an event's way. The order is the order of a trail at equal times.
const (
	StageFact      = "fact"      // the business row, where the service can name it
	StageAppended  = "appended"  // in the outbox
	StageDelayed   = "delayed"   // waits for its time
	StagePublished = "published" // the broker has it; coordinates known
	StageParked    = "parked"    // waits for a retry, or behind its key
	// Of an event that goes as a half message, beside the outbox: StageHalf, the
	// broker keeps it back; StageCommitted or StageRolledBack, what its local
	// transaction has made of it; StageChecked, the broker has asked, as often as
	// Attempts says; StageConfirmed, the broker delivers it.
	StageHalf       = "half"
	StageCommitted  = "committed"
	StageRolledBack = "rolled_back"
	StageChecked    = "checked"
	StageConfirmed  = "confirmed"
	StageApplied    = "applied"
	StageRejected   = "rejected"
	StageDuplicate  = "duplicate" // another event had the same effect
	StageDead       = "dead"
	StageReplay     = "replay" // a person asked for it
	StageResend     = "resend" // a person asked for what was sent to be sent again
	// StageCompensate: a person gave up on it; StageCompensated: and what may
	// have happened of it was undone.
	StageCompensate  = "compensate"
	StageCompensated = "compensated"
	StageDiscarded   = "discarded"
	StageMissing     = "missing" // evidence that should be there is not
)

// Step is one thing that is known of one event.
type Step struct {
	At        time.Time          `json:"at"`
	Service   string             `json:"service"`
	Group     string             `json:"consumer_group,omitempty"`
	Stage     string             `json:"stage"`
	EventID   string             `json:"event_id"`
	EventType string             `json:"event_type"`
	Key       string             `json:"aggregate_id"`
	TraceID   string             `json:"trace_id,omitempty"`
	Causation string             `json:"causation_id,omitempty"`
	Attempts  int                `json:"attempts,omitempty"`
	NextAt    *time.Time         `json:"next_at,omitempty"`
	By        string             `json:"by,omitempty"`
	Note      string             `json:"note,omitempty"`
	Broker    settle.Coordinates `json:"broker,omitzero"`
}

// Trails is what one service's database knows of an event's way.
type Trails interface {
	// Trail returns the steps, oldest first, of every event whose aggregate id,
	// business key, event id or trace id is id. No step and no error means
	// that this service knows nothing of it.
	Trail(ctx context.Context, id string) ([]Step, error)
}

// Partial is implemented by Trails that may not look through all they have.
type Partial interface {
	// Unsearched reports whether Trail finds what stands only in the outbox by
	// event id alone: it has no index of order ids, business keys and traces.
	Unsearched(ctx context.Context) (bool, error)
}
