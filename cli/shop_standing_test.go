package cli

import (
	"testing"
	"time"

	"github.com/settlemq/settle/examples/shop"
)

func TestAShopSaysThatAllHasSettledOnlyWhenNothingWaits(t *testing.T) {
	waits := []shop.UnsettledOrder{{Age: 3 * time.Second, Cause: "risk holds the order"}}
	for want, s := range map[string]shopStanding{
		"every order has settled": {},
		"1 order has not settled; the oldest waits for 3s: risk holds the order":                                                                 {open: waits, waiting: 4},
		"2 orders have not settled; the oldest waits for 3s: risk holds the order":                                                               {open: append(waits, waits...)},
		"every order has ended; 1 event waits to be handled":                                                                                     {waiting: 1},
		"every order has ended; 2 events wait to be handled; 1 dead letter waits for a person: settle dead list --dir 'a b'":                     {waiting: 2, dead: 1},
		"2 dead letters wait for a person: settle dead list --dir 'a b'":                                                                         {dead: 2},
		"1 order has not settled; the oldest waits for 3s: risk holds the order; 1 dead letter waits for a person: settle dead list --dir 'a b'": {open: waits, dead: 1},
	} {
		if got := s.line("a b"); got != want {
			t.Errorf("%+v: %q; want %q", s, got, want)
		}
	}
	if (shopStanding{waiting: 1}).news() == (shopStanding{}).news() || (shopStanding{open: waits, waiting: 1}).news() != (shopStanding{open: waits}).news() {
		t.Error("what is told and what is news differ")
	}
}
