package consumelog

import (
	"time"

	"github.com/settlemq/settle"
)

// Place is a row of the retry store to be written: ID 0 is a new one.
type Place struct {
	ID       int64
	Dead     bool
	Blocking bool
	NextAt   time.Time // zero: waits for the row before it
	Class    settle.Class
	Cause    string
	Gap      bool // a gap before it is seen for the first time
}

// Letter is a dead letter to be opened.
type Letter struct {
	Class    settle.Class
	Cause    string
	Blocking bool
}

// Closing is a dead letter that ends, in State.
type Closing struct{ EventID, State string }

// Step is what becomes of one item: everything that Apply writes about it.
type Step struct {
	Verdict settle.Verdict
	// Run the handler; what follows is written only if it succeeds.
	Run bool
	// Status that the log row gets; "" leaves it as it was inserted or found.
	Status string
	Effect bool
	Reason string
	Forget bool // the log row goes: an ignored event leaves none
	Place  *Place
	Remove []int64 // rows of the retry store that go
	Letter *Letter
	Closed []Closing // dead letters that end
	// Supersede lists events whose log row becomes SUPERSEDED.
	Supersede []string
	advance   bool // the sequence moves to the item's
	Promote   bool // the next row of the key becomes due
}
