// Package lifecycle holds what can happen in the shop: its events, and for
// each thing that has a life (order, reservation, payment, assessment,
// shipment, reward) a state machine as a table. It is pure; the services drive
// the tables inside their transactions, the simulation drives the same ones,
// and docs/shop.md is drawn from them.
//
// Every table has an answer to each of its events in each of its states,
// however early, late or often the event comes: an early one is remembered, a
// late or repeated one changes nothing.
package lifecycle

import "slices"

// Transition is one row of a state machine: in state From, the event On (and,
// where the answer depends on more, When) leads to state To, appends the event
// Emits and starts the timer Starts. An empty When means always. A row with To
// equal to From and no event is a repeat or comes late and changes nothing;
// that it is written down shows it was thought of.
type Transition struct {
	From, On, When, To, Emits, Starts string
}

// Changes reports whether anything is to be written.
func (t Transition) Changes() bool { return t.To != t.From || t.Emits != "" }

// Machine is a state machine as a table. Its initial state is None, but for
// the order's.
type Machine struct {
	// Name is the service whose machine it is, Aggregate the type of the events
	// that it emits: each machine numbers its own.
	Name, Aggregate string
	Initial         string
	Rows            []Transition
}

// None is the state of what nothing was heard of yet.
const None = ""

// Next finds the row for an event in a state. Not found means that the table
// has a hole: a bug.
func (m Machine) Next(from, on, when string) (Transition, bool) {
	for _, t := range m.Rows {
		if t.From == from && t.On == on && (t.When == "" || t.When == when) {
			return t, true
		}
	}
	return Transition{}, false
}

// States returns all states, the initial one first, in the table's order.
func (m Machine) States() []string {
	all := []string{m.Initial}
	for _, t := range m.Rows {
		all = addNew(all, t.From)
		all = addNew(all, t.To)
	}
	return all
}

// Inputs returns all that the machine takes, in the table's order: events,
// what a customer asks for, compensations.
func (m Machine) Inputs() []string {
	var all []string
	for _, t := range m.Rows {
		all = addNew(all, t.On)
	}
	return all
}

// Conditions returns what the answer to an input may depend on; one empty
// condition if on nothing.
func (m Machine) Conditions(on string) []string {
	var all []string
	for _, t := range m.Rows {
		if t.On == on && t.When != "" {
			all = addNew(all, t.When)
		}
	}
	if len(all) == 0 {
		return []string{""}
	}
	return all
}

// Machines returns all machines of the shop.
func Machines() []Machine {
	return []Machine{Order(), Reservation(), Payment(), Assessment(), Shipment(), Reward()}
}

func addNew(all []string, s string) []string {
	if slices.Contains(all, s) {
		return all
	}
	return append(all, s)
}

// stays returns rows for inputs that change nothing in a state.
func stays(state string, inputs ...string) []Transition {
	rows := make([]Transition, len(inputs))
	for i, on := range inputs {
		rows[i] = Transition{From: state, On: on, To: state}
	}
	return rows
}
