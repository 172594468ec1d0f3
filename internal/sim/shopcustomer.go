package sim

import (
	"fmt"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// customer is somebody with one order, and what will become of it.
type customer struct {
	shop                     *shop
	order                    order
	risky, refused, declined bool
	stuck                    *outsider // which hangs on this order while there are faults
	placed                   bool      // was told so
	asks                     int       // requests without an answer so far
}

func (p *shop) customer(id string) *customer {
	for _, c := range p.customers {
		if c.order.ID == id {
			return c
		}
	}
	return nil
}

// addCustomer plans what a customer does: to order, perhaps to pay, perhaps to
// cancel, at good and at bad moments.
func (p *shop) addCustomer(i int) {
	o := order{ID: fmt.Sprintf("no-%d", i+1), Cents: int64(p.from(1, 90_000)), Now: !p.chance(p.PaysLater)}
	for _, sh := range p.shelves {
		if len(o.Lines) == 0 || p.chance(0.4) {
			o.Lines = append(o.Lines, orderLine{SKU: sh.sku, Quantity: p.from(1, 4)})
		}
	}
	if p.chance(p.Free) {
		o.Cents = 0
	}
	c := &customer{shop: p, order: o, risky: p.chance(p.HighRisk), refused: p.chance(0.5), declined: p.chance(p.Declined)}
	if p.chance(p.Stuck) {
		c.stuck = p.outsiders[p.IntN(len(p.outsiders))]
	}
	p.customers = append(p.customers, c)
	p.After(p.between(0, faultTime/2), func() { c.ask("orders", c.place) })
}

// place is the request that orders. The same request again finds the order.
func (c *customer) place(tx transaction) {
	s := c.shop.services[atOrder]
	if _, known := s.rows[c.order.ID]; known {
		c.shop.probes.hit("order placed before")
		return
	}
	r := row{state: s.machine.Initial, order: c.order}
	s.save(tx, r, lifecycle.Transition{To: r.state, Emits: lifecycle.OrderCreated}, "")
	c.shop.timer(tx, s, r, lifecycle.OrderTimer, lifecycle.OrderPaymentDue, "")
}

// goOn is what the customer does once the order is placed.
func (c *customer) goOn() {
	p := c.shop
	if c.placed {
		return
	}
	c.placed = true
	wish := func(what, input string, within time.Duration) {
		p.After(p.between(0, within), func() {
			c.ask(what, func(tx transaction) {
				if err := p.services[atOrder].hear(tx, c.order, input, ""); err != nil {
					p.fail("no order is lost", "%s %s: %v", what, c.order.ID, err)
				}
			})
		})
	}
	if !c.order.Now && p.chance(0.8) {
		wish("asks to pay", lifecycle.CustomerPays, p.PaymentWindow*3/2)
		if p.chance(0.2) {
			wish("asks to pay", lifecycle.CustomerPays, p.PaymentWindow)
		}
	}
	if p.chance(p.Cancels) {
		wish("cancels", lifecycle.CustomerCancels, p.pick(100*time.Millisecond, time.Second, p.PaymentWindow))
	}
}

// entryTx is a transaction of the entry.
type entryTx struct {
	w      *World
	outbox *outboxModel
	tx     *outboxTx
	undo   []func()
}

func (t *entryTx) insert(e *settle.Event) {
	t.w.stamp(e, t.outbox)
	pooled := t.w.chance(t.w.Pooled)
	if pooled && len(t.outbox.pool) == 0 {
		t.outbox.reserve(t.w.from(1, 4))
	}
	t.outbox.insert(t.tx, e, pooled)
}

func (t *entryTx) undone(f func()) { t.undo = append(t.undo, f) }

func (t *entryTx) rollback() {
	for i := len(t.undo) - 1; i >= 0; i-- {
		t.undo[i]()
	}
	t.outbox.rollback(t.tx)
}

// ask sends a request to the entry, and again until an answer has come.
func (c *customer) ask(what string, do func(tx transaction)) {
	c.asks++
	c.send(what, do)
}

func (c *customer) send(what string, do func(tx transaction)) {
	p, entry := c.shop, c.shop.entry
	again := func() { p.After(p.between(20*time.Millisecond, 300*time.Millisecond), func() { c.send(what, do) }) }
	if !entry.alive || entry.stopped || entry.cut || p.chance(p.LostCall) {
		p.probes.hit("request lost")
		again()
		return
	}
	life, lock := entry.life, p.services[atOrder].inbox.rowLock(c.order.ID)
	lock.acquire(func() {
		if entry.life != life || !entry.alive {
			lock.release()
			again()
			return
		}
		t := &entryTx{w: p.World, outbox: p.services[atOrder].outbox}
		t.tx = t.outbox.begin(false)
		do(t)
		p.hist.note(p.Since(), c.order.ID, what)
		entry.mayDie()
		hold := p.between(0, 20*time.Millisecond)
		if p.chance(p.LongHold) {
			hold = p.between(100*time.Millisecond, time.Second)
		}
		p.After(hold, func() {
			committed := c.finish(t, life)
			lock.release()
			if !committed || !entry.alive || entry.life != life || p.chance(p.LostAnswer) {
				again()
				return
			}
			c.asks--
			c.goOn()
		})
	})
}

// finish commits the transaction of a request, or rolls it back.
func (c *customer) finish(t *entryTx, life int) bool {
	p := c.shop
	if t.tx.ended || p.entry.life != life || !p.entry.alive || (p.Phase == phaseFaults && p.chance(p.Rollback)) {
		p.probes.hit("request rolled back")
		t.rollback()
		return false
	}
	t.outbox.commit(t.tx)
	p.ring(t.outbox)
	p.look(p.services[atOrder], []string{c.order.ID})
	return true
}
