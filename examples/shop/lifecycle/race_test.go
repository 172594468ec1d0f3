package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// race is two things that may happen at about the same time. Each order of
// them is forced from every moment at which both are possible; nothing else
// that people or timers do comes after that.
type race struct {
	setting
	a, b string // as composition.tell names them
	// aFirst and bFirst are the states that the order may end in.
	aFirst, bFirst []string
	// over: the order has ended before, and what follows is that others hear of
	// it. Else it has not.
	over bool
}

func races() map[string]race {
	usual := setting{stock: InStock, risk: LowRisk, review: Release}
	with := func(change func(s *setting)) setting {
		s := usual
		change(&s)
		return s
	}
	cancels := with(func(s *setting) { s.cancels = 1 })
	givesUp := with(func(s *setting) { s.gaveUp, s.anyOrder = 1, true })
	paysLater := with(func(s *setting) { s.paysLater, s.pays = true, 1 })
	completed, cancelled := []string{Completed}, []string{Cancelled}
	return map[string]race{
		"pay and cancel":                          {cancels, "order hears payment.succeeded", CustomerCancels, completed, cancelled, false},
		"capture and cancel":                      {cancels, "payment hears order.confirmed", CustomerCancels, cancelled, cancelled, false},
		"capture and cancelled":                   {with(func(s *setting) { s.cancels, s.anyOrder = 1, true }), "payment hears order.confirmed", "payment hears order.cancelled", cancelled, cancelled, true},
		"ask to pay and cancel":                   {with(func(s *setting) { s.paysLater, s.pays, s.cancels = true, 1, 1 }), CustomerPays, CustomerCancels, cancelled, cancelled, false},
		"ask to pay and may pay":                  {paysLater, CustomerPays, "payment hears order.confirmed", completed, completed, false},
		"told of the wish and of the leave":       {with(func(s *setting) { s.paysLater, s.pays, s.anyOrder = true, 1, true }), "payment hears order.pay_requested", "payment hears order.confirmed", completed, completed, false},
		"cancel and reserve":                      {cancels, CustomerCancels, "inventory hears order.created", cancelled, cancelled, false},
		"told of cancelling and to reserve":       {with(func(s *setting) { s.cancels, s.anyOrder = 1, true }), "inventory hears order.cancelled", "inventory hears order.created", cancelled, cancelled, true},
		"reserved and approved":                   {usual, "order hears inventory.reserved", "order hears risk.approved", completed, completed, false},
		"too little stock and approved":           {with(func(s *setting) { s.stock = Short }), "order hears inventory.reserve_failed", "order hears risk.approved", cancelled, cancelled, false},
		"time-out and payment":                    {usual, "payment is due", "order hears payment.succeeded", cancelled, completed, false},
		"time-out and wish to pay":                {paysLater, "payment is due", CustomerPays, cancelled, cancelled, false},
		"time-out and refusal":                    {with(func(s *setting) { s.declines = true }), "payment is due", "order hears payment.failed", cancelled, cancelled, false},
		"review and cancel":                       {with(func(s *setting) { s.risk, s.cancels = HighRisk, 1 }), "review is due", "risk hears order.cancelled", cancelled, cancelled, true},
		"review and time-out":                     {with(func(s *setting) { s.risk = HighRisk }), "review is due", "payment is due", cancelled, cancelled, false},
		"paid and cancelled at inventory":         {givesUp, "inventory hears order.paid", "inventory hears order.cancelled", cancelled, cancelled, true},
		"paid and cancelled at marketing":         {givesUp, "marketing hears order.paid", "marketing hears order.cancelled", cancelled, cancelled, true},
		"shipment given up and cancelled by hand": {with(func(s *setting) { s.gaveUp, s.cancels = 1, 1 }), "fulfilment gives up on order.paid", CustomerCancels, cancelled, cancelled, false},
		"shipment given up and reward":            {with(func(s *setting) { s.gaveUp = 1 }), "fulfilment gives up on order.paid", "marketing hears order.paid", cancelled, cancelled, false},
		"shipment failed and stock sold":          {with(func(s *setting) { s.gaveUp = 1 }), "order hears fulfilment.failed", "inventory hears order.paid", cancelled, cancelled, false},
		"reserving given up and approved":         {with(func(s *setting) { s.gaveUp = 1 }), "inventory gives up on order.created", "order hears risk.approved", cancelled, cancelled, false},
		"payment given up and cancelled":          {with(func(s *setting) { s.gaveUp, s.cancels = 1, 1 }), "payment gives up on order.confirmed", CustomerCancels, cancelled, cancelled, false},
	}
}

func TestRacesEndWellInBothOrders(t *testing.T) {
	c := compose(Machines()...)
	for name, r := range races() {
		t.Run(name, func(t *testing.T) {
			if err := c.run(r); err != nil {
				t.Error(err)
			}
		})
	}
}

// run forces both orders and returns what is wrong.
func (c composition) run(r race) error {
	moments := map[moment]bool{}
	if f := c.explore(c.begin(r.setting), moments); f != nil {
		return fmt.Errorf("%v", f)
	}
	for _, forced := range []struct {
		steps [2]string
		ends  []string
	}{{[2]string{r.a, r.b}, r.aFirst}, {[2]string{r.b, r.a}, r.bFirst}} {
		after := map[moment]bool{}
		for m := range moments {
			if Final(m.states[atOrder]) != r.over {
				continue
			}
			if f := c.force(m, forced.steps, after); f != nil {
				return fmt.Errorf("%q before %q: %v", forced.steps[0], forced.steps[1], f)
			}
		}
		if got := c.ends(after); !slices.Equal(got, forced.ends) {
			return fmt.Errorf("%q before %q ends as %v, want %v", forced.steps[0], forced.steps[1], got, forced.ends)
		}
	}
	return nil
}

// force takes two steps from m, if both are possible there, and explores from
// then on.
func (c composition) force(m moment, steps [2]string, after map[moment]bool) *found {
	if c.find(&m, steps[0]) == nil || c.find(&m, steps[1]) == nil {
		return nil
	}
	for _, name := range steps {
		s := c.find(&m, name)
		if s == nil {
			return &found{why: fmt.Errorf("%q is not possible any more", name)}
		}
		next, err := c.take(m, *s)
		if err == nil {
			err = c.broken(&m, &next)
		}
		if err != nil {
			return &found{why: err}
		}
		m = next
	}
	m.due, m.review = false, false
	m.left.pays, m.left.cancels, m.left.gaveUp = 0, 0, 0
	if after[m] {
		return nil
	}
	return c.explore(m, after)
}

func (c composition) find(m *moment, name string) *step {
	for _, s := range c.steps(m) {
		if c.tell(m, s) == name {
			return &s
		}
	}
	return nil
}

// ends are the states of the order at moments after which nothing happens.
func (c composition) ends(moments map[moment]bool) []string {
	states := map[string]bool{}
	for m := range moments {
		if len(c.steps(&m)) == 0 {
			states[m.states[atOrder]] = true
		}
	}
	return slices.Sorted(maps.Keys(states))
}

func TestARaceThatEndsOtherwiseIsNoticed(t *testing.T) {
	c := compose(Machines()...)
	r := races()["pay and cancel"]
	r.aFirst, r.bFirst = r.bFirst, r.aFirst
	if c.run(r) == nil {
		t.Error("whoever comes first makes no difference")
	}
	r = races()["pay and cancel"]
	r.a = "order hears something else"
	if c.run(r) == nil {
		t.Error("a race that never happens is run")
	}
}
