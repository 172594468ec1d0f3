package shop

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// fakeCarrier is a carrier with a ledger.
type fakeCarrier struct {
	weather   weather
	calls     int
	deaf      bool // says yes to Cancel and does nothing
	shipped   map[string]bool
	cancelled map[string]bool
}

func (c *fakeCarrier) Ship(_ context.Context, orderID string, lines []Item) (string, error) {
	c.calls++
	if err := c.weather.away(); err != nil {
		return "", err
	}
	if c.cancelled[orderID] || len(lines) != 1 {
		return "", settle.Permanent(fmt.Errorf("%s with %d lines is not shipped", orderID, len(lines)))
	}
	c.shipped[orderID] = true
	if err := c.weather.answer(); err != nil {
		return "", err
	}
	return "track-" + orderID, nil
}

func (c *fakeCarrier) Cancel(_ context.Context, orderID string) error {
	c.calls++
	if err := c.weather.away(); err != nil {
		return err
	}
	if !c.deaf {
		c.cancelled[orderID] = true
		delete(c.shipped, orderID)
	}
	return c.weather.answer()
}

// shipmentAfter is the state that a shipment must be in and the events it must
// have appended: what came first decides.
func shipmentAfter(done []string) (state string, events []string) {
	if len(done) == 0 {
		return "", nil
	}
	switch done[0] {
	case lifecycle.OrderPaid:
		return "SHIPPED", []string{"fulfilment.shipped"}
	case lifecycle.OrderCancelled:
		return "BARRED", nil
	}
	return "FAILED", []string{"fulfilment.failed"}
}

// fulfilmentStage is a fulfilment service, its carrier and three orders.
func fulfilmentStage(t *testing.T) (*stage, *fulfilmentService, *fakeCarrier) {
	t.Helper()
	carrier := &fakeCarrier{shipped: map[string]bool{}, cancelled: map[string]bool{}}
	service := newFulfilment(baseIn(t, "fulfilment", outsiders{carrier: carrier}))
	st := &stage{db: service.db, reactions: service.reactions(), weather: &carrier.weather, calls: &carrier.calls}
	for i := range 3 {
		st.orders = append(st.orders, orderFacts{OrderID: fmt.Sprint("o", i), CustomerID: "c", Amount: Cents(i), Items: []Item{{"a", 1}}})
	}
	st.begin = func() { clear(carrier.shipped); clear(carrier.cancelled) }
	st.wrong = func(ctx context.Context, tx *sql.Tx, order orderFacts, done []string) error {
		state, events := shipmentAfter(done)
		want := ""
		if state == "SHIPPED" {
			want = "track-" + order.OrderID
		}
		var got, tracking string
		if err := tx.QueryRowContext(ctx, `SELECT COALESCE(MAX(state), ''), COALESCE(MAX(tracking), '') FROM t_shipment WHERE order_id = $1`, order.OrderID).Scan(&got, &tracking); err != nil {
			return err
		}
		if got != state || tracking != want || carrier.shipped[order.OrderID] != (want != "") {
			return fmt.Errorf("the shipment is %q by %q, and that the carrier has it is %v; want %q by %q", got, tracking, carrier.shipped[order.OrderID], state, want)
		}
		return mustHave(ctx, tx, order.OrderID, events...)
	}
	return st, service, carrier
}

func TestAnOrderIsShippedOnceOrNeverWhateverComes(t *testing.T) {
	st, _, _ := fulfilmentStage(t)
	st.check(t, lifecycle.Shipment().Inputs())
}

func TestAWrongShipmentIsNoticed(t *testing.T) {
	giveUp := lifecycle.Compensation(lifecycle.OrderPaid)
	bugs := map[string]func(*stage, *fulfilmentService, *fakeCarrier){
		"order.paid ships what is cancelled": func(_ *stage, s *fulfilmentService, _ *fakeCarrier) {
			s.shipments.machine = withRow(s.shipments.machine, lifecycle.Transition{From: "BARRED", On: lifecycle.OrderPaid, To: "SHIPPED", Emits: lifecycle.FulfilmentShipped})
		},
		"the compensation says failed of what is shipped": func(_ *stage, s *fulfilmentService, _ *fakeCarrier) {
			s.shipments.machine = withRow(s.shipments.machine, lifecycle.Transition{From: "SHIPPED", On: giveUp, To: "FAILED", Emits: lifecycle.FulfilmentFailed})
		},
		"the compensation says failed each time": func(_ *stage, s *fulfilmentService, _ *fakeCarrier) {
			s.shipments.machine = withRow(s.shipments.machine, lifecycle.Transition{From: "FAILED", On: giveUp, To: "FAILED", Emits: lifecycle.FulfilmentFailed})
		},
		"the carrier goes on with what is given up": func(_ *stage, _ *fulfilmentService, c *fakeCarrier) { c.deaf = true },
		"the carrier is asked each time": func(st *stage, _ *fulfilmentService, c *fakeCarrier) {
			st.reactions = instead(st.reactions, lifecycle.OrderCancelled, func(do consumer.Handler[*sql.Tx]) consumer.Handler[*sql.Tx] {
				return func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
					c.calls++
					return do(ctx, tx, e)
				}
			})
		},
		"the tracking code is not kept": func(st *stage, _ *fulfilmentService, _ *fakeCarrier) {
			st.reactions = instead(st.reactions, lifecycle.OrderPaid, func(do consumer.Handler[*sql.Tx]) consumer.Handler[*sql.Tx] {
				return func(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
					err := do(ctx, tx, e)
					_, cleared := tx.ExecContext(ctx, noteTracking, "", e.AggregateID)
					return errors.Join(err, cleared)
				}
			})
		},
	}
	for name, plant := range bugs {
		t.Run(name, func(t *testing.T) {
			st, service, carrier := fulfilmentStage(t)
			plant(st, service, carrier)
			if err := st.notices(t, lifecycle.Shipment().Inputs()); err == nil {
				t.Error("nothing is noticed")
			}
		})
	}
}

func TestTheEventsOfAShipmentSayHowItWent(t *testing.T) {
	st, service, _ := fulfilmentStage(t)
	e := func(id string) *settle.Event {
		return &settle.Event{ID: "cause-" + id, Type: lifecycle.OrderPaid, AggregateID: id, BizKey: "c", TraceID: "trace", Payload: []byte(`{"items":[{"sku":"a","quantity":1}]}`)}
	}
	says(t, st.db, "o1", func(tx *sql.Tx) error { return service.paid(t.Context(), tx, e("o1")) },
		`fulfilment.shipped cause-o1 trace c {"orderId":"o1","tracking":"track-o1"}`)
	says(t, st.db, "o2", func(tx *sql.Tx) error { return service.giveUp(t.Context(), tx, e("o2")) },
		`fulfilment.failed cause-o2 trace c {"orderId":"o2","reason":"shipping it was given up"}`)
}
