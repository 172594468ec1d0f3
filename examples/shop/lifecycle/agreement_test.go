package lifecycle

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// broken returns which promise does not hold at this moment, or nil.
func (c composition) broken(before, m *moment) error {
	if Final(before.states[atOrder]) && m.states[atOrder] != before.states[atOrder] {
		return fmt.Errorf("an order left %s for %s", before.states[atOrder], m.states[atOrder])
	}
	for _, once := range [][]string{
		{OrderConfirmed}, {OrderPayRequested}, {OrderPaid}, {OrderCompleted, OrderCancelled},
		{InventoryReserved, InventoryReserveFailed}, {InventorySold, InventoryReserveFailed}, {InventoryReleased},
		{PaymentCreated}, {PaymentSucceeded, PaymentFailed}, {PaymentRefunded}, {PaymentVoided},
		{RiskApproved, RiskRejected}, {RiskHeld}, {FulfilmentShipped, FulfilmentFailed}, {MarketingGranted}, {MarketingRevoked},
	} {
		n := 0
		for _, event := range once {
			n += c.said(m, event)
		}
		if n > 1 {
			return fmt.Errorf("of %s, %d were said", strings.Join(once, " and "), n)
		}
	}
	switch {
	case m.captures > 1:
		return fmt.Errorf("money was taken %d times", m.captures)
	case c.said(m, OrderConfirmed) > 0 && c.said(m, InventoryReserved) == 0:
		return fmt.Errorf("an order was confirmed that has no stock")
	case c.said(m, OrderConfirmed) > 0 && c.said(m, RiskApproved) == 0:
		return fmt.Errorf("an order was confirmed that risk has not approved")
	case m.captures > 0 && c.said(m, OrderConfirmed) == 0:
		return fmt.Errorf("money was taken before the order was confirmed")
	case c.said(m, PaymentRefunded) > 0 && !m.left.free && !m.money.returned:
		return fmt.Errorf("a refund was told, and no money went back")
	case m.parcel.there && c.said(m, OrderPaid) == 0:
		return fmt.Errorf("what is not paid was shipped")
	}
	return nil
}

func (c composition) said(m *moment, event string) int {
	for i, e := range c.events {
		if e == event {
			return int(m.said[i])
		}
	}
	return 0
}

// disagreement returns where, when nothing is to happen any more, stock, money,
// parcel or reward do not agree with the order, or nil.
func (c composition) disagreement(m *moment) error {
	stock, payment := m.states[atInventory], m.states[atPayment]
	paid := payment == PaymentCaptured && (m.money.taken || m.left.free)
	owed := payment == PaymentCaptured || m.money.taken
	rewarded := m.states[atMarketing] == RewardGranted && m.coupon.there
	waived := m.states[atMarketing] == RewardWaived && !m.coupon.there
	shipped := m.states[atFulfilment] == ShipmentShipped && m.parcel.there
	bad := func(what string) error {
		return fmt.Errorf("the order is %s, and %s: %q, money %+v, parcel %+v, coupon %+v", m.states[atOrder], what, m.states, m.money, m.parcel, m.coupon)
	}
	switch m.states[atOrder] {
	case Completed:
		switch {
		case stock != ReservationConfirmed:
			return bad("its stock is not sold")
		case !paid:
			return bad("its money is not here")
		case !shipped:
			return bad("nothing was shipped")
		case !rewarded && !waived:
			return bad("it has no reward")
		}
	case Cancelled:
		switch {
		case stock == ReservationReserved || stock == ReservationConfirmed || stock == ReservationPrepaid:
			return bad("its stock is kept")
		case owed:
			return bad("its money is kept")
		case payment == PaymentOpen || payment == PaymentAsked || payment == PaymentDue:
			return bad("its payment is open")
		case m.states[atFulfilment] == ShipmentShipped || m.parcel.there:
			return bad("something was shipped")
		case m.states[atMarketing] == RewardGranted || m.coupon.there:
			return bad("it has a reward")
		case m.states[atRisk] == AssessmentHeld:
			return bad("its review is awaited")
		}
	default:
		return bad("nothing will happen any more")
	}
	return nil
}

// found is a broken promise and the way to it.
type found struct {
	why   error
	steps []string
}

func (f *found) String() string {
	if f == nil {
		return "nothing"
	}
	return f.why.Error() + "\n\t" + strings.Join(f.steps, "\n\t")
}

// explore follows every way that things can go from m, each moment once, and
// returns the first broken promise. seen counts the moments.
func (c composition) explore(m moment, seen map[moment]bool) *found {
	seen[m] = true
	steps := c.steps(&m)
	if len(steps) == 0 {
		if err := c.disagreement(&m); err != nil {
			return &found{why: err}
		}
	}
	for _, s := range steps {
		next, err := c.take(m, s)
		if err == nil {
			err = c.broken(&m, &next)
		}
		f := &found{why: err}
		if err == nil {
			if seen[next] {
				continue
			}
			f = c.explore(next, seen)
		}
		if f != nil {
			f.steps = append([]string{c.tell(&m, s)}, f.steps...)
			return f
		}
	}
	return nil
}

// settings are worlds that differ in one thing after the other; each is
// explored wholly.
func settings() map[string]setting {
	usual := setting{stock: InStock, risk: LowRisk, review: Release}
	with := func(change func(s *setting)) setting {
		s := usual
		change(&s)
		return s
	}
	return map[string]setting{
		"all goes well":               usual,
		"too little stock":            with(func(s *setting) { s.stock = Short }),
		"held, then released":         with(func(s *setting) { s.risk = HighRisk }),
		"held, then refused":          with(func(s *setting) { s.risk, s.review = HighRisk, Refuse }),
		"no money":                    with(func(s *setting) { s.declines = true }),
		"nothing to pay":              with(func(s *setting) { s.free = true }),
		"released in time":            with(func(s *setting) { s.risk, s.patient = HighRisk, true }),
		"no money, in time":           with(func(s *setting) { s.declines, s.patient = true, true }),
		"cancelled":                   with(func(s *setting) { s.cancels = 1 }),
		"cancelled twice":             with(func(s *setting) { s.cancels = 2 }),
		"never paid":                  with(func(s *setting) { s.paysLater = true }),
		"paid later":                  with(func(s *setting) { s.paysLater, s.pays = true, 1 }),
		"paid later, twice":           with(func(s *setting) { s.paysLater, s.pays = true, 2 }),
		"paid later or cancelled":     with(func(s *setting) { s.paysLater, s.pays, s.cancels = true, 1, 1 }),
		"answers lost":                with(func(s *setting) { s.lost, s.cancels = 2, 1 }),
		"answers late":                with(func(s *setting) { s.late, s.cancels = 1, 1 }),
		"given up":                    with(func(s *setting) { s.gaveUp = 2 }),
		"given up after lost answers": with(func(s *setting) { s.gaveUp, s.lost = 1, 1 }),
		"given up after late answers": with(func(s *setting) { s.gaveUp, s.late = 1, 1 }),
		"repeated":                    with(func(s *setting) { s.repeats = 1 }),
		"given up in any order":       with(func(s *setting) { s.gaveUp, s.anyOrder = 1, true }),
		"in any order":                with(func(s *setting) { s.anyOrder = true }),
		"in any order, cancelled":     with(func(s *setting) { s.anyOrder, s.cancels, s.lost = true, 1, 1 }),
	}
}

func TestAllWaysThatThingsCanGoAgreeInTheEnd(t *testing.T) {
	c := compose(Machines()...)
	for name, s := range settings() {
		t.Run(name, func(t *testing.T) {
			seen := map[moment]bool{}
			if f := c.explore(c.begin(s), seen); f != nil {
				t.Errorf("%v", f)
			}
			t.Logf("%d moments", len(seen))
		})
	}
}

// wander goes one way, which draws say, and returns the broken promise.
func (c composition) wander(m moment, pick func(n int) int) *found {
	var told []string
	for {
		steps := c.steps(&m)
		if len(steps) == 0 {
			if err := c.disagreement(&m); err != nil {
				return &found{err, told}
			}
			return nil
		}
		s := steps[pick(len(steps))]
		told = append(told, c.tell(&m, s))
		next, err := c.take(m, s)
		if err == nil {
			err = c.broken(&m, &next)
		}
		if err != nil {
			return &found{err, told}
		}
		m = next
	}
}

func TestWhateverComesTogetherAgreesInTheEnd(t *testing.T) {
	c := compose(Machines()...)
	rapid.Check(t, func(t *rapid.T) {
		s := setting{
			stock: rapid.SampledFrom([]string{InStock, Short}).Draw(t, "stock"), risk: rapid.SampledFrom([]string{LowRisk, HighRisk}).Draw(t, "risk"),
			review: rapid.SampledFrom([]string{Release, Refuse}).Draw(t, "review"), paysLater: rapid.Bool().Draw(t, "pays later"),
			declines: rapid.Bool().Draw(t, "declines"), free: rapid.Bool().Draw(t, "free"), anyOrder: rapid.Bool().Draw(t, "any order"),
			pays: rapid.IntRange(0, 3).Draw(t, "pays"), cancels: rapid.IntRange(0, 2).Draw(t, "cancels"), lost: rapid.IntRange(0, 3).Draw(t, "lost"),
			late: rapid.IntRange(0, 2).Draw(t, "late"), gaveUp: rapid.IntRange(0, 2).Draw(t, "given up"), repeats: rapid.IntRange(0, 4).Draw(t, "repeats"),
		}
		if f := c.wander(c.begin(s), func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "next") }); f != nil {
			t.Fatal(f)
		}
	})
}
