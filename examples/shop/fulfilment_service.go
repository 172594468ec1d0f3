package shop

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// fulfilmentService is the fulfilment service's database and what it does
// there. The carrier is asked only when the machine says that there is
// something to do.
type fulfilmentService struct {
	base
	shipments aggregate
}

func newFulfilment(b base) *fulfilmentService {
	return &fulfilmentService{base: b, shipments: aggregate{machine: lifecycle.Shipment(), table: "t_shipment", db: b.db, now: b.now}}
}

func (s *fulfilmentService) reactions() []reaction {
	return []reaction{
		{on: lifecycle.OrderPaid, do: s.paid, undo: s.giveUp, outside: true},
		{on: lifecycle.OrderCancelled, do: s.cancelled},
	}
}

// shipmentFacts is the payload of the events of a shipment.
type shipmentFacts struct {
	OrderID  string `json:"orderId"`
	Tracking string `json:"tracking,omitempty"`
	// Reason says why nothing is shipped.
	Reason string `json:"reason,omitempty"`
}

const noteTracking = `UPDATE t_shipment SET tracking = $1 WHERE order_id = $2`

// paid takes order.paid: the carrier ships the order.
func (s *fulfilmentService) paid(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
	order, err := orderOf(e)
	if err != nil {
		return err
	}
	p, err := s.shipments.find(ctx, tx, e)
	if err != nil {
		return err
	}
	row, err := s.shipments.next(p, e.Type, "")
	if err != nil || !row.Changes() {
		return err
	}
	tracking, err := consumer.Ask(ctx, func(ctx context.Context) (string, error) {
		return s.outside.carrier.Ship(ctx, p.orderID, order.Items)
	})
	if err != nil {
		return fmt.Errorf("ship order %s: %w", p.orderID, err)
	}
	// Crash here: the carrier has the order and nothing is noted; the event
	// comes again and the carrier gives the same tracking code.
	if err := s.shipments.save(ctx, tx, p, row, shipmentFacts{OrderID: p.orderID, Tracking: tracking}); err != nil {
		return err
	}
	if _, err := exec(ctx, s.db, tx, noteTracking, tracking, p.orderID); err != nil {
		return fmt.Errorf("note tracking code: %w", err)
	}
	return nil
}

// cancelled takes order.cancelled: what has not gone does not go any more. The
// carrier need not be asked: an order.paid whose answer was lost is tried
// again, or given up, before later events of its order are handled.
func (s *fulfilmentService) cancelled(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
	p, err := s.shipments.find(ctx, tx, e)
	if err != nil {
		return err
	}
	row, err := s.shipments.next(p, e.Type, "")
	if err != nil {
		return err
	}
	return s.shipments.save(ctx, tx, p, row, nil)
}

// giveUp compensates order.paid: the carrier, which may have taken the order
// although no answer came, ships nothing for it, and the order service hears
// that the shipment can't be made. What is shipped stays shipped.
func (s *fulfilmentService) giveUp(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
	p, err := s.shipments.find(ctx, tx, e)
	if err != nil {
		return err
	}
	row, err := s.shipments.next(p, lifecycle.Compensation(e.Type), "")
	if err != nil || !row.Changes() {
		return err
	}
	_, err = consumer.Ask(ctx, func(ctx context.Context) (any, error) { return nil, s.outside.carrier.Cancel(ctx, p.orderID) })
	if err != nil {
		return fmt.Errorf("cancel shipment of order %s: %w", p.orderID, err)
	}
	// Crash here: the carrier ships nothing and nobody knows; the compensation
	// is run again.
	return s.shipments.save(ctx, tx, p, row, shipmentFacts{OrderID: p.orderID, Reason: "shipping it was given up"})
}
