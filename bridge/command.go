package bridge

// command is what the machine wants done. At most one of each kind is under way.
type command interface{ isCommand() }

type (
	// leadNow takes or renews the lease.
	leadNow struct{}
	// readNow begins to take letters in, under a lease; stopReading ends that.
	readNow     struct{ lease Lease }
	stopReading struct{}
	// lookNow asks for ordered replays.
	lookNow struct{}
	// sendNow sends one back.
	sendNow struct{ order Order }
	// markNow records what became of it.
	markNow struct {
		lease Lease
		mark  Mark
	}
)

func (leadNow) isCommand()     {}
func (readNow) isCommand()     {}
func (stopReading) isCommand() {}
func (lookNow) isCommand()     {}
func (sendNow) isCommand()     {}
func (markNow) isCommand()     {}

// input is what has happened; nil: time has passed.
type input interface{ isInput() }

type (
	led struct {
		lease Lease
		err   error
	}
	// kept is one call of the sink.
	kept struct {
		letters, fresh int
		err            error
	}
	// ended: nothing is read any more.
	ended struct{ err error }
	found struct {
		ordered Ordered
		err     error
	}
	sent struct {
		order Order
		err   error
	}
	marked struct {
		mark Mark
		err  error
	}
)

func (led) isInput()    {}
func (kept) isInput()   {}
func (ended) isInput()  {}
func (found) isInput()  {}
func (sent) isInput()   {}
func (marked) isInput() {}
