package lifecycle

import (
	"fmt"
	"strings"
)

// A composition is the six machines of one order at work together: what one
// emits reaches the others by queues, one from order to each and one from each
// to order, in order of each queue and in any order between them.
type composition struct {
	machines [parties]Machine
	events   []string // all that travel; queues hold places in it
}

// Who takes part.
const (
	atOrder = iota
	atInventory
	atPayment
	atRisk
	atFulfilment
	atMarketing
	parties
)

func compose(machines ...Machine) composition {
	c := composition{machines: [parties]Machine(machines)}
	for _, m := range machines {
		for _, row := range m.Rows {
			if row.Emits != "" {
				c.events = addNew(c.events, row.Emits)
			}
		}
	}
	c.events = addNew(c.events, OrderCreated)
	return c
}

func (c composition) place(event string) byte {
	for i, e := range c.events {
		if e == event {
			return byte(i)
		}
	}
	panic("no such event: " + event)
}

// setting is what the world around one order decides, and how much of what can
// go wrong may.
type setting struct {
	stock, risk, review string
	paysLater, declines bool
	free                bool // amount zero
	pays, cancels       int  // how often the customer asks
	lost                int  // answers of outside systems that may be lost, their work done
	late                int  // calls that may be given up and done later
	gaveUp              int  // events that a person may give up on
	repeats             int  // deliveries that may come again
	anyOrder            bool // queues too deliver in any order
	patient             bool // time never ends the order
}

// marked is an event of an order whose customer wants to pay.
const marked = 0x80

// moment is where everything is; two equal ones have the same future.
type moment struct {
	states         [parties]string
	toward, back   [parties]string // queues from order, and to it
	asked          bool
	due, review    bool // timers that have not fired
	money          provider
	coupon, parcel thing
	captures       uint8
	said           [40]uint8 // how often each event was emitted
	left           setting
	hanging        [parties]bool // calls given up that will be done
}

// thing is what another system gives for an order, once.
type thing struct{ there, barred bool }

func (t *thing) give() {
	if !t.barred {
		t.there = true
	}
}

func (t *thing) takeBack() { t.there, t.barred = false, true }

func (c composition) begin(s setting) moment {
	m := moment{left: s, due: !s.patient}
	m.states[atOrder] = Created
	c.emit(&m, atOrder, OrderCreated)
	return m
}

func (c composition) emit(m *moment, from int, event string) {
	i := c.place(event)
	m.said[i]++
	if from == atOrder {
		if m.asked || !m.left.paysLater {
			i |= marked
		}
		for to := atInventory; to < parties; to++ {
			if c.machines[to].takes(event) {
				m.toward[to] += string([]byte{i})
			}
		}
	} else if c.machines[atOrder].takes(event) {
		m.back[from] += string([]byte{i})
	}
}

func (m Machine) takes(input string) bool {
	for _, row := range m.Rows {
		if row.On == input {
			return true
		}
	}
	return false
}

// step is one thing that can happen next.
type step struct {
	kind  stepKind
	party int
	at    int // place in the queue
}

type stepKind int

const (
	hears stepKind = iota
	repeats
	loses
	hangs
	isDoneLate
	isGivenUp
	firesDue
	firesReview
	pays
	cancels
)

var stepNames = [...]string{"hears", "hears and will hear again", "loses the answer to", "hangs on", "does late", "gives up on", "payment is due", "review is due", CustomerPays, CustomerCancels}

// tell names a step for a person.
func (c composition) tell(m *moment, s step) string {
	if s.kind >= firesDue {
		return stepNames[s.kind]
	}
	who, event := c.machines[max(s.party, atOrder)].Name, "what it had given up"
	if s.kind != isDoneLate {
		event = c.events[(*m.queue(s.party))[s.at]&^marked]
	}
	return fmt.Sprintf("%s %s %s", who, stepNames[s.kind], event)
}

// queue is what goes to a party; a negative party stands for what comes back
// from it to order.
func (m *moment) queue(party int) *string {
	if party < 0 {
		return &m.back[-party]
	}
	return &m.toward[party]
}

// steps are all things that can happen next.
func (c composition) steps(m *moment) []step {
	var all []step
	for party := -parties + 1; party < parties; party++ {
		q := *m.queue(party)
		for at := range len(q) {
			if at > 0 && !m.left.anyOrder {
				break
			}
			all = append(all, c.ways(m, party, at)...)
		}
	}
	for party, hanging := range m.hanging {
		if hanging {
			all = append(all, step{isDoneLate, party, 0})
		}
	}
	for _, other := range []struct {
		may  bool
		kind stepKind
	}{{m.due, firesDue}, {m.review, firesReview}, {m.left.pays > 0, pays}, {m.left.cancels > 0, cancels}} {
		if other.may {
			all = append(all, step{kind: other.kind})
		}
	}
	return all
}

// ways are all ways in which a delivery can go.
func (c composition) ways(m *moment, party, at int) []step {
	all := []step{{hears, party, at}}
	if m.left.repeats > 0 {
		all = append(all, step{repeats, party, at})
	}
	if party == atPayment || party == atFulfilment || party == atMarketing {
		if m.left.lost > 0 {
			all = append(all, step{loses, party, at})
		}
		if m.left.late > 0 && !m.hanging[party] {
			all = append(all, step{hangs, party, at})
		}
	}
	if party > 0 && m.left.gaveUp > 0 && c.machines[party].takes(Compensation(c.events[(*m.queue(party))[at]&^marked])) {
		all = append(all, step{isGivenUp, party, at})
	}
	return all
}

// take returns what follows a step.
func (c composition) take(m moment, s step) (moment, error) {
	var err error
	switch s.kind {
	case firesDue:
		m.due = false
		err = c.hear(&m, atOrder, OrderPaymentDue, false)
	case firesReview:
		m.review = false
		err = c.hear(&m, atRisk, RiskReviewDue, false)
	case pays:
		m.left.pays--
		err = c.hear(&m, atOrder, CustomerPays, false)
	case cancels:
		m.left.cancels--
		err = c.hear(&m, atOrder, CustomerCancels, false)
	case isDoneLate:
		m.hanging[s.party] = false
		c.doOutside(&m, s.party)
	default:
		err = c.deliver(&m, s)
	}
	return m, err
}

func (c composition) deliver(m *moment, s step) error {
	q := m.queue(s.party)
	code := (*q)[s.at]
	event, wish := c.events[code&^marked], code&marked != 0
	party := max(s.party, atOrder)
	switch s.kind {
	case loses:
		m.left.lost--
		c.when(m, party, event, wish)
		return nil
	case hangs:
		m.left.late--
		m.hanging[party] = c.gives(m, party, event, wish)
		return nil
	case repeats:
		m.left.repeats--
	default:
		*q = (*q)[:s.at] + (*q)[s.at+1:]
	}
	if s.kind == isGivenUp {
		m.left.gaveUp--
		event = Compensation(event)
	}
	return c.hear(m, party, event, wish)
}

// hear is a service handling an input in its transaction.
func (c composition) hear(m *moment, party int, input string, wish bool) error {
	from := m.states[party]
	when := c.when(m, party, input, wish)
	t, ok := c.machines[party].Next(from, input, when)
	if !ok {
		return fmt.Errorf("%s: %q has no answer to %s (%s)", c.machines[party].Name, from, input, when)
	}
	m.states[party] = t.To
	if input == CustomerPays && t.Emits != "" {
		m.asked = true
	}
	if t.Starts == RiskReviewDue {
		m.review = true
	}
	if t.Emits != "" {
		c.emit(m, party, t.Emits)
	}
	return nil
}

// when is what the answer to an input depends on; to know it a service may
// have to call an outside system.
func (c composition) when(m *moment, party int, input string, wish bool) string {
	state := m.states[party]
	switch party {
	case atOrder:
		if m.asked {
			return Asked
		}
		return NotAsked
	case atInventory:
		return m.left.stock
	case atRisk:
		if input == RiskReviewDue {
			return m.left.review
		}
		return m.left.risk
	case atPayment:
		of := &m.money
		if m.left.free {
			of = &provider{answered: true} // nobody is asked
		}
		before := m.money.taken
		when := of.answer(c.machines[party], state, heard{on: input, when: m.letter(wish, input)})
		if m.money.taken && !before {
			m.captures++
		}
		return when
	case atFulfilment:
		m.parcel.outside(c.machines[party], state, input, ShipmentShipped)
	case atMarketing:
		m.coupon.outside(c.machines[party], state, input, RewardGranted)
	}
	return ""
}

// letter is what the event and the provider bring to a payment.
func (m *moment) letter(wish bool, input string) string {
	switch {
	case !wish && input == OrderConfirmed:
		return waits
	case m.left.declines:
		return refused
	}
	return wishes
}

// outside gives what an event asks for when the table goes to a state that has
// it, and takes it back when the table leaves that state, or when the event is
// given up: then an answer may have been lost.
func (t *thing) outside(machine Machine, state, input, had string) {
	next, _ := machine.Next(state, input, "")
	switch {
	case next.To == had && state != had:
		t.give()
	case state == had && next.To != had, next.Changes() && strings.HasPrefix(input, compensation):
		t.takeBack()
	}
}

// gives reports whether handling an event would ask an outside system for
// something: such a call may be given up here and be done there later.
func (c composition) gives(m *moment, party int, event string, wish bool) bool {
	after := *m
	c.when(&after, party, event, wish)
	return after.money.taken != m.money.taken && !m.money.taken || after.parcel.there && !m.parcel.there || after.coupon.there && !m.coupon.there
}

// doOutside is a call done that was given up.
func (c composition) doOutside(m *moment, party int) {
	switch party {
	case atPayment:
		before := m.money.taken
		m.money.capture(m.left.declines)
		if m.money.taken && !before {
			m.captures++
		}
	case atFulfilment:
		m.parcel.give()
	case atMarketing:
		m.coupon.give()
	}
}
