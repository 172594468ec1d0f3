package sim

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// order is the payload of the shop's events: the whole order.
type order struct {
	ID    string      `json:"id"`
	Cents int64       `json:"cents"`
	Lines []orderLine `json:"lines"`
	// Now: its customer wants to pay.
	Now bool `json:"now"`
}

type orderLine struct {
	SKU      string `json:"sku"`
	Quantity int    `json:"quantity"`
}

// service is one service of the shop.
type service struct {
	shop    *shop
	machine lifecycle.Machine
	outbox  *outboxModel
	inbox   *inboxModel
	rows    map[string]row // by order
	touched []string       // orders that were changed since the last commit, or tried to be
}

// row is what a service keeps of one order.
type row struct {
	state   string
	version int64
	order   order
}

// shelf is the stock of one article.
type shelf struct {
	sku                                string
	initial, available, reserved, sold int
}

// transaction is one at a service's database.
type transaction interface {
	// insert adds an event to the outbox.
	insert(e *settle.Event)
	// undone keeps how to undo something, should it not commit.
	undone(f func())
}

var errUnknownOrder = errors.New("the order is not known here")

// hear lets the service's machine take an input, in tx.
func (s *service) hear(tx transaction, o order, input, cause string) error {
	r, known := s.rows[o.ID]
	switch {
	case s == s.shop.services[atOrder] && !known:
		return errUnknownOrder
	case s == s.shop.services[atOrder]:
		o = r.order
	}
	when, err := s.when(r, o, input)
	if err != nil {
		return err
	}
	t, ok := s.machine.Next(r.state, input, when)
	if !ok {
		return settle.Permanent(fmt.Errorf("%s: %q has no answer to %s (%s)", s.machine.Name, r.state, input, when))
	}
	if !t.Changes() {
		return nil
	}
	s.shop.reached(s, t)
	if input == lifecycle.CustomerPays {
		o.Now = true
	}
	s.save(tx, row{state: t.To, version: r.version, order: o}, t, cause)
	return nil
}

// save writes the row, moves stock, and tells of it.
func (s *service) save(tx transaction, r row, t lifecycle.Transition, cause string) {
	id := r.order.ID
	if t.Emits != "" {
		r.version++
		s.shop.say(tx, id, t.Emits)
		tx.insert(s.event(s.machine.Aggregate, t.Emits, cause, r))
	}
	if t.Starts == lifecycle.RiskReviewDue {
		s.shop.timer(tx, s, r, lifecycle.RiskTimer, lifecycle.RiskReviewDue, cause)
	}
	before, known := s.rows[id]
	tx.undone(func() {
		if s.rows[id] = before; !known {
			delete(s.rows, id)
		}
	})
	s.rows[id] = r
	if s == s.shop.services[atInventory] {
		for _, l := range r.order.Lines {
			s.shop.move(tx, l, t)
		}
	}
	s.touched = append(s.touched, id)
}

func (s *service) event(aggregate, eventType, cause string, r row) *settle.Event {
	payload, err := json.Marshal(r.order)
	if err != nil {
		panic(err)
	}
	return &settle.Event{
		Type: eventType, AggregateType: aggregate, AggregateID: r.order.ID, AggregateSeq: r.version,
		BizKey: r.order.ID, CausationID: cause, Topic: topicName(0), Payload: payload,
	}
}

// timer adds a delayed event; it has no place in a sequence.
func (p *shop) timer(tx transaction, s *service, r row, aggregate, eventType, cause string) {
	r.version = 0
	e := s.event(aggregate, eventType, cause, r)
	e.NotBefore = p.dbNow().Add(p.PaymentWindow)
	if eventType == lifecycle.RiskReviewDue {
		e.NotBefore = p.dbNow().Add(p.ReviewAfter)
	}
	tx.insert(e)
}

// move moves the stock of a line as the reservation's change of state says.
func (p *shop) move(tx transaction, l orderLine, t lifecycle.Transition) {
	held := func(state string) (reserved, sold int) {
		switch state {
		case lifecycle.ReservationReserved:
			return l.Quantity, 0
		case lifecycle.ReservationConfirmed:
			return 0, l.Quantity
		}
		return 0, 0
	}
	r0, s0 := held(t.From)
	r1, s1 := held(t.To)
	sh := p.shelf(l.SKU)
	before := *sh
	tx.undone(func() { *sh = before })
	sh.reserved += r1 - r0
	sh.sold += s1 - s0
	sh.available += r0 + s0 - r1 - s1
}

func (p *shop) shelf(sku string) *shelf {
	for _, sh := range p.shelves {
		if sh.sku == sku {
			return sh
		}
	}
	return nil
}

// asks reports whether the machine's answer to input depends on when.
func (s *service) asks(r row, input, when string) bool {
	t, _ := s.machine.Next(r.state, input, when)
	return t.When == when
}

// when finds out on what the answer to an input depends; for that somebody
// else's system may have to be called.
func (s *service) when(r row, o order, input string) (string, error) {
	p := s.shop
	switch s {
	case p.services[atOrder]:
		if r.order.Now {
			return lifecycle.Asked, nil
		}
		return lifecycle.NotAsked, nil
	case p.services[atInventory]:
		return p.inStock(o), nil
	case p.services[atPayment]:
		return s.money(r, o, input)
	case p.services[atRisk]:
		return p.assess(o, input), nil
	case p.services[atFulfilment]:
		return "", p.carrier.serve(s.machine, r, o, input, lifecycle.ShipmentShipped)
	}
	return "", p.coupons.serve(s.machine, r, o, input, lifecycle.RewardGranted)
}

func (p *shop) inStock(o order) string {
	for _, l := range o.Lines {
		if p.shelf(l.SKU).available < l.Quantity {
			return lifecycle.Short
		}
	}
	return lifecycle.InStock
}

func (p *shop) assess(o order, input string) string {
	c := p.customer(o.ID)
	switch {
	case input == lifecycle.RiskReviewDue && c.refused:
		return lifecycle.Refuse
	case input == lifecycle.RiskReviewDue:
		return lifecycle.Release
	case c.risky:
		return lifecycle.HighRisk
	}
	return lifecycle.LowRisk
}

// money asks the provider what the table wants to know: a row that ends with
// money taken or refused needs a capture, one that ends with none a void.
func (s *service) money(r row, o order, input string) (string, error) {
	p := s.shop
	if !o.Now && s.asks(r, input, lifecycle.PaysLater) {
		return lifecycle.PaysLater, nil
	}
	var captures, voids bool
	for _, t := range s.machine.Rows {
		if t.From == r.state && t.On == input && t.Changes() {
			captures = captures || t.To == lifecycle.PaymentCaptured || t.To == lifecycle.PaymentDeclined
			voids = voids || t.To == lifecycle.PaymentCancelled || t.To == lifecycle.PaymentReturned || t.To == lifecycle.PaymentBarred
		}
	}
	switch {
	case captures && o.Cents == 0:
		p.probes.hit("nothing to pay")
		return lifecycle.Taken, nil
	case captures:
		given, err := p.provider.give(o.ID, o.ID, p.customer(o.ID).declined)
		if !given {
			return lifecycle.Declined, err
		}
		return lifecycle.Taken, err
	case voids && o.Cents > 0:
		returned, err := p.provider.takeBack(o.ID, o.ID)
		if returned && r.state != lifecycle.PaymentCaptured {
			p.probes.hit("money found that nobody knew of")
		}
		if returned {
			return lifecycle.MoneyReturned, err
		}
		return lifecycle.NothingTaken, err
	}
	return lifecycle.NothingTaken, nil
}
