package shop

// transition is one row of a state machine: in state from, the event on (and,
// where the answer depends on more, when) leads to state to and appends the
// event emits. An empty when means always. A row with to equal to from and no
// event is a repeat or comes late and changes nothing; that it is written down
// shows it was thought of.
type transition struct {
	from, on, when, to, emits string
}

func (t transition) changes() bool { return t.to != t.from || t.emits != "" }

// next finds the row for (from, on, when).
func next(table []transition, from, on, when string) (transition, bool) {
	for _, t := range table {
		if t.from == from && t.on == on && (t.when == "" || t.when == when) {
			return t, true
		}
	}
	return transition{}, false
}
