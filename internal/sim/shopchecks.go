package sim

import (
	"strings"

	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// say counts an event of an order.
func (p *shop) say(tx transaction, id, event string) {
	key := id + " " + event
	p.said[key]++
	tx.undone(func() { p.said[key]-- })
}

// once lists events of which an order sees at most one each.
var once = [][]string{
	{lifecycle.OrderCreated}, {lifecycle.OrderConfirmed}, {lifecycle.OrderPayRequested}, {lifecycle.OrderPaid},
	{lifecycle.OrderCompleted, lifecycle.OrderCancelled},
	{lifecycle.InventoryReserved, lifecycle.InventoryReserveFailed}, {lifecycle.InventorySold}, {lifecycle.InventoryReleased},
	{lifecycle.PaymentSucceeded, lifecycle.PaymentFailed}, {lifecycle.PaymentRefunded},
	{lifecycle.RiskApproved, lifecycle.RiskRejected}, {lifecycle.RiskHeld},
	{lifecycle.FulfilmentShipped, lifecycle.FulfilmentFailed}, {lifecycle.MarketingGranted}, {lifecycle.MarketingRevoked},
}

// look checks what must hold when a service has committed, for the orders that
// it may have changed. An order's state is looked at when its own service
// commits: elsewhere a transaction of the entry may be at work on it.
func (p *shop) look(s *service, touched []string) {
	for _, id := range touched {
		for _, events := range once {
			n := 0
			for _, e := range events {
				n += p.said[id+" "+e]
			}
			if n > 1 {
				p.fail("said once", "of %s, %d were said of %s", strings.Join(events, " and "), n, id)
			}
		}
		p.lookAhead(id)
		if s != p.services[atOrder] {
			continue
		}
		state := s.rows[id].state
		if was := p.ended[id]; was != "" && was != state {
			p.fail("an order's end is final", "%s was %s and is %s", id, was, state)
		}
		if lifecycle.Final(state) {
			p.ended[id] = state
		}
	}
	if s == p.services[atInventory] {
		p.lookAtStock()
	}
}

// lookAhead checks that nothing has come before what it needs.
func (p *shop) lookAhead(id string) {
	needs := func(event string, is bool, first string) {
		if is && p.said[id+" "+first] == 0 {
			p.fail("nothing before its time", "%s: %s without %s", id, event, first)
		}
	}
	said := func(event string) bool { return p.said[id+" "+event] > 0 }
	needs("confirmed", said(lifecycle.OrderConfirmed), lifecycle.InventoryReserved)
	needs("confirmed", said(lifecycle.OrderConfirmed), lifecycle.RiskApproved)
	needs("money", p.provider.has(id), lifecycle.OrderConfirmed)
	needs("paid", said(lifecycle.OrderPaid), lifecycle.PaymentSucceeded)
	needs("a parcel", p.carrier.has(id), lifecycle.OrderPaid)
	needs("a coupon", p.coupons.has(id), lifecycle.OrderPaid)
}

func (p *shop) lookAtStock() {
	for _, sh := range p.shelves {
		reserved, sold := 0, 0
		for _, c := range p.customers {
			for _, l := range c.order.Lines {
				if l.SKU != sh.sku {
					continue
				}
				switch p.state(atInventory, c.order.ID) {
				case lifecycle.ReservationReserved:
					reserved += l.Quantity
				case lifecycle.ReservationConfirmed:
					sold += l.Quantity
				}
			}
		}
		if sh.available < 0 || sh.reserved != reserved || sh.sold != sold || sh.available+sh.reserved+sh.sold != sh.initial {
			p.fail("stock is conserved", "of %d %s, %d are available, %d reserved (%d by orders) and %d sold (%d by orders)",
				sh.initial, sh.sku, sh.available, sh.reserved, reserved, sh.sold, sold)
		}
	}
}

func (p *shop) state(at int, id string) string { return p.services[at].rows[id].state }

func (p *shop) unsettled(say func(string, ...any)) {
	for _, c := range p.customers {
		switch state := p.state(atOrder, c.order.ID); {
		case c.asks > 0:
			say("the customer of %s has no answer", c.order.ID)
		case !c.placed:
			say("%s is not placed", c.order.ID)
		case !lifecycle.Final(state):
			say("%s is %s", c.order.ID, state)
		}
	}
	for _, x := range p.outsiders {
		if x.late > 0 {
			say("%s has %d calls to do", x.name, x.late)
		}
	}
}

// end checks that stock, money, parcel and reward agree with each order, and
// that the money adds up.
func (p *shop) end() {
	completed, taken := int64(0), int64(0)
	for _, c := range p.customers {
		id := c.order.ID
		if _, there := p.services[atOrder].rows[id]; !there {
			p.fail("no order is lost", "%s was accepted and is not there", id)
		}
		if why := p.disagreement(c); why != "" {
			p.fail("all agree with the order", "%s is %s, and %s", id, p.state(atOrder, id), why)
		}
		if p.state(atOrder, id) == lifecycle.Completed {
			completed += c.order.Cents
			p.probes.hit("order completed")
		}
		if p.provider.has(id) {
			taken += c.order.Cents
		}
	}
	if completed != taken {
		p.fail("money adds up", "%d cents were kept for completed orders of %d", taken, completed)
	}
}

// disagreement says where something does not agree with an order that has come
// to its end.
func (p *shop) disagreement(c *customer) string {
	id := c.order.ID
	stock, payment, reward := p.state(atInventory, id), p.state(atPayment, id), p.state(atMarketing, id)
	money := p.provider.has(id)
	if p.state(atOrder, id) == lifecycle.Completed {
		switch {
		case stock != lifecycle.ReservationConfirmed:
			return "its stock is not sold"
		case payment != lifecycle.PaymentCaptured || money != (c.order.Cents > 0):
			return "its money is not here"
		case p.state(atFulfilment, id) != lifecycle.ShipmentShipped || !p.carrier.has(id):
			return "nothing was shipped"
		case p.coupons.has(id) != (reward == lifecycle.RewardGranted):
			return "its coupon is not what marketing knows"
		case reward != lifecycle.RewardGranted && reward != lifecycle.RewardWaived:
			return "it has no reward"
		}
		return ""
	}
	switch {
	case stock == lifecycle.ReservationReserved || stock == lifecycle.ReservationConfirmed || stock == lifecycle.ReservationPrepaid:
		return "its stock is kept"
	case money || payment == lifecycle.PaymentCaptured:
		return "its money is kept"
	case payment == lifecycle.PaymentOpen || payment == lifecycle.PaymentAsked || payment == lifecycle.PaymentDue:
		return "its payment is open"
	case p.carrier.has(id) || p.state(atFulfilment, id) == lifecycle.ShipmentShipped:
		return "something was shipped"
	case p.coupons.has(id) || reward == lifecycle.RewardGranted:
		return "it has a reward"
	case p.state(atRisk, id) == lifecycle.AssessmentHeld:
		return "its review is awaited"
	}
	return ""
}
