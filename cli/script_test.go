package cli

import (
	"reflect"
	"slices"
	"testing"

	"github.com/settlemq/settle/drill"
	"github.com/settlemq/settle/examples/shop"
)

func written(t *testing.T, name string, seed uint64) (scenario, script) {
	t.Helper()
	s, err := findScenario(name)
	if err != nil {
		t.Fatal(err)
	}
	feed, err := shop.SampleFeed()
	if err != nil {
		t.Fatal(err)
	}
	plot, err := s.write(feed.Take(1000), s.faults, seed)
	if err != nil {
		t.Fatal(err)
	}
	return s, plot
}

func TestTheSameSeedWritesTheSameScript(t *testing.T) {
	for _, s := range scenarios() {
		_, one := written(t, s.name, 7)
		_, same := written(t, s.name, 7)
		_, other := written(t, s.name, 8)
		if !reflect.DeepEqual(one, same) {
			t.Errorf("%s: two scripts of one seed differ", s.name)
		}
		if reflect.DeepEqual(one, other) {
			t.Errorf("%s: the seed changes nothing", s.name)
		}
	}
}

func TestACustomerForWhomTheCouponSystemHangsHasOneOrderThatEarnsACoupon(t *testing.T) {
	for _, s := range scenarios() {
		if !slices.Contains(s.faults, drill.FaultCouponStuck) {
			continue
		}
		_, plot := written(t, s.name, 3)
		if len(plot.stuck) != s.stuck || plot.leave != s.leave {
			t.Errorf("%s: hangs for %v, leaves %d", s.name, plot.stuck, plot.leave)
		}
		for _, customer := range plot.stuck {
			var orders []drill.Request
			for _, r := range plot.requests {
				if r.CustomerID == customer {
					orders = append(orders, r)
				}
			}
			if len(orders) != 1 || orders[0].Amount < int64(couponFrom) || orders[0].Amount > int64(holdAbove) || len(orders[0].Acts) > 0 || orders[0].Refused {
				t.Errorf("%s: %s has %+v", s.name, customer, orders)
			}
		}
	}
}

func TestEveryWishOfTheMixIsPlayed(t *testing.T) {
	_, plot := written(t, everything, 1)
	races, pays, cancels, refusals := 0, 0, 0, 0
	for _, r := range plot.requests {
		if r.Refused {
			refusals++
		}
		switch {
		case len(r.Acts) == 2 && r.Acts[0].After == r.Acts[1].After && r.Acts[0].Kind != r.Acts[1].Kind:
			races++
		case len(r.Acts) == 1 && r.Acts[0].Kind == drill.ActPay:
			pays++
		case len(r.Acts) == 1:
			cancels++
		}
	}
	if races == 0 || pays == 0 || cancels == 0 || refusals != 2 || plot.poisoned != 5 {
		t.Errorf("%d races, %d pay, %d cancel, %d refused, %d poisoned", races, pays, cancels, refusals, plot.poisoned)
	}
}
