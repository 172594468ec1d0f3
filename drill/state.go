package drill

// State is how far a system is, by its databases.
type State struct {
	Accepted  int64
	Completed int64
	Cancelled int64
	// Timers are events that are to be published later.
	Timers int64
	// Unpublished events ought to have reached the broker by now and have not.
	Unpublished int64
	// Behind counts events that a consumer group has not dealt with and that
	// neither are timers nor wait for, or are, an open dead letter.
	Behind int64
	// DeadOpen dead letters wait for a person, Replaying ones for the outcome of
	// a replay.
	DeadOpen, Replaying int64
}

// Open is how many orders are neither completed nor cancelled.
func (s State) Open() int64 { return s.Accepted - s.Completed - s.Cancelled }

// still reports whether nothing moves.
func (s State) still() bool { return s.Unpublished == 0 && s.Behind == 0 && s.Replaying == 0 }

// Settled reports whether nothing is left to do but for at most so many dead
// letters that are left on purpose: of those that were meant to be, some may
// never have come.
func (s State) Settled(left int) bool {
	return s.still() && s.Open() == 0 && s.Timers == 0 && s.DeadOpen <= int64(left)
}

// Blocked reports whether nothing goes on without a person: all that is open
// waits for dead letters that nobody has decided about, or for its time.
func (s State) Blocked(left int) bool { return s.still() && s.DeadOpen > int64(left) }
