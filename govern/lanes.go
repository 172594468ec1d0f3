package govern

import (
	"context"
)

// ActionDivide is the audit action of a changed number of lanes; its target is
// "N lanes".
const ActionDivide = "outbox.lanes"

// MaxLanes bounds the lanes of one outbox: each of them reads every id.
const MaxLanes = 64

// Division is a generation of lanes, in which an outbox is read by so many
// relays at once.
type Division struct {
	Generation int `json:"generation"`
	Lanes      int `json:"lanes"`
	// Barrier is the id that the lanes before it read up to, and end; 0 when they
	// end where they are.
	Barrier int64 `json:"barrier"`
	// Ordered is true for one that was ordered now, false where there are so many
	// lanes already; Begun when it reads.
	Ordered bool `json:"ordered"`
	Begun   bool `json:"begun"`
}

// LaneStanding is a lane that has not ended.
type LaneStanding struct {
	Lane       int  `json:"lane"`
	Generation int  `json:"generation"`
	Index      int  `json:"index"`
	Of         int  `json:"of"`
	Begun      bool `json:"begun"`
	// Led is true while a leader's lease runs, which is Owner's then.
	Led   bool   `json:"led"`
	Owner string `json:"owner,omitempty"`
	// Cursor is the highest id that its newest checkpoint says it has read.
	Cursor int64 `json:"cursor"`
}

// Divider is what a Store has besides whose outbox may be read by several
// relays at once, each of which owns the keys of its lane.
type Divider interface {
	// Divide orders a number of lanes, 1 to MaxLanes, and returns at once: the
	// lanes that read now end, then the new ones begin. Where there are so many
	// already, or so many are ordered, nothing is changed or audited.
	Divide(ctx context.Context, a Act, lanes int) (Division, error)
	// LaneStandings returns the lanes that read, those that are ordered, and
	// those of older generations that have not ended, by their numbers.
	LaneStandings(ctx context.Context) ([]LaneStanding, error)
}
