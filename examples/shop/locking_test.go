package shop

import (
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

func TestHandlersThatWantTheLastPieceAtOnceDoNotFail(t *testing.T) {
	onEachDatabase(t, testHandlersThatWantTheLastPieceAtOnceDoNotFail)
}

func testHandlersThatWantTheLastPieceAtOnceDoNotFail(t *testing.T, dir string) {
	s := inventoryIn(t, dir)
	const rounds = 20
	for round := range rounds {
		sku := fmt.Sprint("last-", round)
		if err := inTx(t.Context(), s.db, func(tx *sql.Tx) error { return raise(t.Context(), s.db, tx, []Level{{sku, 1}}) }); err != nil {
			t.Fatal(err)
		}
		var buyers sync.WaitGroup
		for i := range 4 {
			e := createdEvent(t, fmt.Sprintf("o-%d-%d", round, i), Item{sku, 1})
			buyers.Go(func() {
				if err := s.handle(t, e); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		buyers.Wait()
	}
	if n := number(t, s.db.Reader, `SELECT COUNT(*) FROM t_reservation WHERE state = 'RESERVED'`); n != rounds {
		t.Errorf("%d orders have a piece; there were %d", n, rounds)
	}
}

func TestACustomerAndAnEventThatChangeAnOrderAtOnceDoNotFail(t *testing.T) {
	onEachDatabase(t, testACustomerAndAnEventThatChangeAnOrderAtOnceDoNotFail)
}

func testACustomerAndAnEventThatChangeAnOrderAtOnceDoNotFail(t *testing.T, dir string) {
	e := newEntryIn(t, dir, 100, 100, entryTimeouts{})
	for round := range 20 {
		key := fmt.Sprint("k", round)
		e.post(t, key, goodOrder)
		var changes sync.WaitGroup
		for _, input := range []string{lifecycle.InventoryReserved, lifecycle.RiskApproved, lifecycle.CustomerCancels} {
			changes.Go(func() {
				err := inTx(t.Context(), e.orders.db, func(tx *sql.Tx) error {
					_, event, err := e.orders.advance(t.Context(), tx, OrderID(key), cause{input: input, eventID: settle.NewID()})
					if err != nil || event == nil {
						return err
					}
					return e.orders.db.Append(t.Context(), tx, event)
				})
				if err != nil {
					t.Errorf("round %d, %s: %v", round, input, err)
				}
			})
		}
		changes.Wait()
		if _, body := e.get(t, "/orders/"+OrderID(key)); number(t, e.orders.db.Reader, "SELECT COUNT(*) FROM t_order WHERE status = 'CANCELLED' AND order_id = '"+OrderID(key)+"'") != 1 {
			t.Errorf("round %d ends with %s", round, body)
		}
	}
}
