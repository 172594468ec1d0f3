package cli

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/settlemq/settle/drill"
	"github.com/settlemq/settle/examples/shop"
)

// scenario is a day in the shop's life that a demo plays.
type scenario struct {
	name, story string
	// faults are injected unless others are named.
	faults []string
	// mix are the shares of customers with wishes of their own.
	mix mix
	// sale is the share of orders that want the one article on sale, of which
	// there is enough for a fifth of them.
	sale float64
	// stuck is for how many customers the coupon system hangs, leave how many
	// of their dead letters are left for whoever watches.
	stuck, leave int
}

// mix are shares of all orders.
type mix struct {
	later    float64 // pay later, after a while
	never    float64 // pay later, and never do
	cancel   float64 // cancel while the order is on its way
	race     float64 // pay and cancel at the same time
	declined float64 // have a card that is refused
}

const everything = "everything"

func scenarios() []scenario {
	return []scenario{
		{
			name: everything, story: "all of the below, and all faults",
			faults: drill.FaultNames(), mix: mix{later: 0.04, never: 0.02, cancel: 0.02, race: 0.02, declined: 0.02},
			sale: 0.05, stuck: 6, leave: 2,
		},
		{
			name: "flash-sale", story: "two of three orders want one article, of which there is too little",
			faults: []string{drill.FaultOrderKill, drill.FaultConsumerKill, drill.FaultInventoryKill, drill.FaultLostAck, drill.FaultDuplicate},
			mix:    mix{later: 0.05, never: 0.05, cancel: 0.03, race: 0.02}, sale: 0.66,
		},
		{
			name: "coupon-outage", story: "the coupon system hangs, for a while for everybody and for good for some",
			faults: []string{drill.FaultCouponOutage, drill.FaultCouponStuck, drill.FaultConsumerKill},
			mix:    mix{cancel: 0.02, declined: 0.02}, stuck: 8, leave: 3,
		},
		{
			name: "payment-limbo", story: "the provider takes money and its answers are lost, while customers change their minds",
			faults: []string{drill.FaultProviderLost, drill.FaultProviderSlow, drill.FaultOutsideKill, drill.FaultConsumerKill},
			mix:    mix{later: 0.10, never: 0.03, cancel: 0.05, race: 0.15, declined: 0.03},
		},
	}
}

// scenarioHelp lists the scenarios for a person.
func scenarioHelp() string {
	var b strings.Builder
	for _, s := range scenarios() {
		fmt.Fprintf(&b, "  %-14s %s\n", s.name, s.story)
	}
	return b.String()
}

func findScenario(name string) (scenario, error) {
	var names []string
	for _, s := range scenarios() {
		if s.name == name {
			return s, nil
		}
		names = append(names, s.name)
	}
	return scenario{}, usagef("unknown scenario %q; the scenarios are %s", name, strings.Join(names, ", "))
}

// Articles, customers and amounts of the demo's own making.
const (
	poisonSKU       = "CD-LATE" // the inventory learns of it only in the repair
	saleSKU         = "CD-SALE"
	blockedCustomer = "blocked-customer" // see drillFile
	beyond          = shop.Cents(20_000_00)
	couponFrom      = shop.Cents(20_00)
	holdAbove       = shop.Cents(100_00)
)

// script is what a demo plays: requests, what there is in stock, and what goes
// wrong on purpose.
type script struct {
	requests []drill.Request
	stock    []shop.Level
	poisoned int
	stuck    []string // customers
	leave    int
	// idle are faults for which nothing among the orders is fit.
	idle []string
}

// write turns a feed's orders into the scenario's script. The seed decides who
// does what.
func (s scenario) write(feed []shop.FeedOrder, faults []string, seed uint64) (script, error) {
	orders := make([]shop.FeedOrder, len(feed))
	acts := make([][]drill.Act, len(feed))
	rnd := rand.New(rand.NewPCG(seed, 0xde30))
	for i, o := range feed {
		orders[i], acts[i] = s.wish(o, rnd)
	}
	var out script
	if slices.Contains(faults, drill.FaultPoison) {
		out.poisoned = poison(orders, acts)
	}
	if slices.Contains(faults, drill.FaultCouponStuck) {
		out.stuck = s.choose(orders, acts)
		out.leave = min(s.leave, len(out.stuck)/2)
		if len(out.stuck) == 0 {
			out.idle = append(out.idle, drill.FaultCouponStuck)
		}
	}
	for i, o := range orders {
		r, err := request(o.OrderRequest, o.Key)
		if err != nil {
			return out, fmt.Errorf("encode order of line %d: %w", o.Line, err)
		}
		r.Acts = acts[i]
		out.requests = append(out.requests, r)
	}
	for i, o := range refused() {
		r, err := request(o, fmt.Sprintf("refused-%d", i+1))
		if err != nil {
			return out, err
		}
		r.Refused = true
		out.requests = slices.Insert(out.requests, (i+1)*len(orders)/3, r)
	}
	out.stock = levels(orders)
	return out, nil
}

// wish gives one customer a will of their own.
func (s scenario) wish(o shop.FeedOrder, rnd *rand.Rand) (shop.FeedOrder, []drill.Act) {
	soon := func(from, to int) time.Duration { return time.Duration(from+rnd.IntN(to-from)) * time.Millisecond }
	if rnd.Float64() < s.sale {
		o.Items = []shop.Item{{SKU: saleSKU, Quantity: 1}}
	}
	dice, m := rnd.Float64(), s.mix
	for _, w := range []struct {
		share float64
		want  func() []drill.Act
	}{
		{m.later, func() []drill.Act {
			o.Pay = shop.PayLater
			return []drill.Act{{Kind: drill.ActPay, After: soon(100, 900)}}
		}},
		{m.never, func() []drill.Act { o.Pay = shop.PayLater; return nil }},
		{m.cancel, func() []drill.Act { return []drill.Act{{Kind: drill.ActCancel, After: soon(0, 600)}} }},
		{m.race, func() []drill.Act {
			o.Pay = shop.PayLater
			at := soon(0, 600)
			return []drill.Act{{Kind: drill.ActPay, After: at}, {Kind: drill.ActCancel, After: at}}
		}},
		{m.declined, func() []drill.Act { o.CustomerID = "declined-" + o.CustomerID; return nil }},
	} {
		if dice < w.share {
			return o, w.want()
		}
		dice -= w.share
	}
	return o, nil
}

// ordinary reports whether an order takes the straight way to its coupon.
func ordinary(o shop.FeedOrder, acts []drill.Act) bool {
	return len(acts) == 0 && o.Pay == "" && !strings.HasPrefix(o.CustomerID, "declined-") &&
		o.Amount >= couponFrom && o.Amount <= holdAbove && o.Items[0].SKU != saleSKU
}

// poison lets some orders ask for an article that nobody has heard of.
func poison(orders []shop.FeedOrder, acts [][]drill.Act) int {
	n := min(5, len(orders)/20+1)
	for i := range n {
		at := (2*i + 1) * len(orders) / (2 * n)
		orders[at].Items, acts[at] = []shop.Item{{SKU: poisonSKU, Quantity: 1}}, nil
	}
	return n
}

// choose picks customers for whom the coupon system hangs, among those who have
// one order and will earn a coupon.
func (s scenario) choose(orders []shop.FeedOrder, acts [][]drill.Act) []string {
	count := map[string]int{}
	for _, o := range orders {
		count[o.CustomerID]++
	}
	short := scarce(orders)
	var fit []string
	for i, o := range orders {
		plenty := !slices.ContainsFunc(o.Items, func(it shop.Item) bool { return short[it.SKU] || it.SKU == poisonSKU })
		if plenty && count[o.CustomerID] == 1 && ordinary(o, acts[i]) {
			fit = append(fit, o.CustomerID)
		}
	}
	var chosen []string
	for i := range min(s.stuck, len(fit)) {
		chosen = append(chosen, fit[i*len(fit)/min(s.stuck, len(fit))])
	}
	return chosen
}

// refused are orders that must leave nothing behind.
func refused() []shop.OrderRequest {
	lines := []shop.Item{{SKU: "CD-000", Quantity: 1}}
	return []shop.OrderRequest{
		{CustomerID: "generous", Amount: beyond, Items: lines},
		{CustomerID: blockedCustomer, Amount: 1000, Items: lines},
	}
}

// scarce are the articles that run out, a tenth of all, so that their last
// orders are cancelled.
func scarce(orders []shop.FeedOrder) map[string]bool {
	short := map[string]bool{saleSKU: true}
	for i, l := range shop.Demand(orders) {
		if i%10 == 0 {
			short[l.SKU] = true
		}
	}
	return short
}

func levels(orders []shop.FeedOrder) []shop.Level {
	short := scarce(orders)
	var stock []shop.Level
	for _, l := range shop.Demand(orders) {
		switch {
		case l.SKU == poisonSKU:
			continue
		case l.SKU == saleSKU:
			l.Quantity /= 5
		case short[l.SKU]:
			l.Quantity -= l.Quantity / 5
		}
		stock = append(stock, l)
	}
	return stock
}
