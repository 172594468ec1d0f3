package drill

import "time"

// Modes of an outside system.
const (
	ModeOK      = "ok"      // it behaves
	ModeLost    = "lost"    // it does the work and its answer is lost
	ModeSlow    = "slow"    // it does the work and answers after a delay
	ModeGarbage = "garbage" // it does the work and answers what nobody can read
	ModeFail    = "fail"    // it does nothing and says that it failed
	ModeHang    = "hang"    // it does nothing and does not answer
)

// Misbehaviour is what an outside system is to do wrong. Several may stand at
// a time, one for each mode and list of customers; ModeOK ends all.
type Misbehaviour struct {
	Mode string
	// Share is the part of the calls, more than 0 to 1, that it happens to.
	// Defaults to 1.
	Share float64
	// Delay is how late an answer is in ModeSlow. Defaults to what the system
	// thinks is slow.
	Delay time.Duration
	// For is after how long it ends by itself. Defaults to never.
	For time.Duration
	// Customers whose calls it happens to. Defaults to everybody.
	Customers []string
}
