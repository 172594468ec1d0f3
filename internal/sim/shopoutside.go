package sim

import (
	"errors"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

var (
	errAway     = errors.New("connection refused")
	errNoAnswer = errors.New("no answer in time")
	errBarred   = errors.New("the order was cancelled here")
)

// outsider is somebody else's system: it takes money, grants coupons or ships
// parcels, once for each key that it is given. Its ledger stays whatever
// becomes of the transaction that called it.
type outsider struct {
	w      *World
	shop   *shop
	name   string
	ledger []*account
	outage window
	silent bool // in the outage it takes calls and does not answer, else it is away
	late   int  // calls given up that will be done
}

// account is what was done under one key.
type account struct {
	key, order            string
	answered, refused     bool
	given, barred, undone bool
}

func (p *shop) addOutsider(name string) *outsider {
	x := &outsider{w: p.World, shop: p, name: name}
	p.outsiders = append(p.outsiders, x)
	return x
}

func (x *outsider) account(key, order string) *account {
	for _, e := range x.ledger {
		if e.key == key {
			return e
		}
	}
	e := &account{key: key, order: order}
	x.ledger = append(x.ledger, e)
	return e
}

// has reports whether the order has what the system gives.
func (x *outsider) has(order string) bool {
	for _, e := range x.ledger {
		if e.order == order && e.given {
			return true
		}
	}
	return false
}

// call makes a call, whose work is done there once, later or never; without an
// error its answer came.
func (x *outsider) call(order string, work func()) error {
	w := x.w
	w.hist.note(w.Since(), x.name, "is called", order)
	outage := w.Since() >= x.outage.from && w.Since() < x.outage.to
	stuck := w.Phase == phaseFaults && x.shop.customer(order).stuck == x
	switch {
	case outage && !x.silent, w.chance(w.OutsideAway):
		w.probes.hit(x.name + " away")
		return settle.Unavailable(errAway)
	case outage, stuck, w.chance(w.OutsideHangs):
		w.probes.hit(x.name + " hangs")
		if w.chance(0.7) {
			x.late++
			w.After(w.between(0, 4*time.Second), func() {
				x.late--
				work()
			})
		}
		return errNoAnswer
	case w.chance(w.OutsideLost):
		w.probes.hit(x.name + " loses its answer")
		work()
		return errNoAnswer
	}
	work()
	return nil
}

// give asks for what the system gives. Its first answer for a key stands, but
// what was taken back is refused: who asks again would go by what is no more.
func (x *outsider) give(key, order string, refuses bool) (given bool, err error) {
	err = x.call(order, func() { given = x.doGive(key, order, refuses) })
	return given, err
}

func (x *outsider) doGive(key, order string, refuses bool) bool {
	e := x.account(key, order)
	e.refused = e.refused || e.undone
	if !e.answered {
		e.answered = true
		switch {
		case e.barred:
			x.w.probes.hit(x.name + " bars a late call")
			e.refused = true
		case refuses:
			e.refused = true
		default:
			if x.has(order) {
				x.w.fail("nothing is given twice", "%s gives to order %s under the key %s what it has already", x.name, order, key)
			}
			e.given = true
			x.w.hist.note(x.w.Since(), x.name, "gives", order)
		}
	}
	return !e.refused
}

// takeBack bars what was not given yet and takes back what was; it says whether
// anything was, again when it is asked again.
func (x *outsider) takeBack(key, order string) (undone bool, err error) {
	err = x.call(order, func() {
		e := x.account(key, order)
		if e.barred = true; e.given {
			e.given, e.undone = false, true
			x.w.hist.note(x.w.Since(), x.name, "takes back", order)
		}
		undone = e.undone
	})
	return undone, err
}

// serve gives what an input asks for when the table goes to the state that has
// it, and takes it back when the table leaves that state, or when the event is
// given up: then an answer may have been lost.
func (x *outsider) serve(m lifecycle.Machine, r row, o order, input, had string) (err error) {
	next, _ := m.Next(r.state, input, "")
	switch {
	case !next.Changes():
	case next.To == had:
		var given bool
		if given, err = x.give(o.ID, o.ID, false); err == nil && !given {
			x.w.probes.hit(x.name + " has barred the order")
			err = settle.Permanent(errBarred)
		}
	case r.state == had, !lifecycle.IsEvent(input):
		_, err = x.takeBack(o.ID, o.ID)
	}
	return err
}
