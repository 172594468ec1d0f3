package shop

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// cause is what an order's machine takes: an event, or what its customer asks
// for.
type cause struct {
	input   string
	reason  string // as the event gives it
	eventID string // empty for a customer's wish
}

// orderRow is an order as it is stored; facts.Items are read when needed.
type orderRow struct {
	facts          orderFacts
	status         string
	version        int64
	traceID        string
	created, payBy int64 // when it was placed, and when it must be paid
}

const findOrder = `SELECT customer_id, amount_cents, status, reason, pay, pay_by, version, trace_id, created_at FROM t_order WHERE order_id = $1`

const findItems = `SELECT sku, qty FROM t_order_item WHERE order_id = $1 ORDER BY sku`

const advanceOrder = `UPDATE t_order SET status = $1, reason = $2, pay = $3, version = $4, updated_at = $5 WHERE order_id = $6 AND version = $7`

// advance lets an order's machine take c in tx. It returns the order as it is
// then and the event of the change, nil when nothing changed. An order that is
// not known is ErrNoOrder.
func (s *orderService) advance(ctx context.Context, tx *sql.Tx, id string, c cause) (orderRow, *settle.Event, error) {
	o := orderRow{facts: orderFacts{OrderID: id}}
	f := &o.facts
	err := queryRow(ctx, s.db, tx, locked(s.db, findOrder), id).Scan(&f.CustomerID, &f.Amount, &o.status, &f.Reason, &f.Pay, &o.payBy, &o.version, &o.traceID, &o.created)
	if errors.Is(err, sql.ErrNoRows) {
		return o, nil, fmt.Errorf("order %s: %w", id, ErrNoOrder)
	}
	if err != nil {
		return o, nil, fmt.Errorf("read order: %w", err)
	}
	when := lifecycle.NotAsked
	if f.Pay == PayNow {
		when = lifecycle.Asked
	}
	row, ok := s.machine.Next(o.status, c.input, when)
	if !ok {
		return o, nil, settle.Permanent(fmt.Errorf("an order that is %s has no answer to %s", o.status, c.input))
	}
	if !row.Changes() {
		return o, nil, nil
	}
	if f.Items, err = items(ctx, s.db, tx, findItems, id); err != nil {
		return o, nil, err
	}
	if c.input == lifecycle.CustomerPays {
		f.Pay = PayNow
	}
	if row.To == lifecycle.Cancelled {
		f.Reason = o.whyCancelled(c)
	}
	done, err := exec(ctx, s.db, tx, advanceOrder, row.To, f.Reason, f.Pay, o.version+1, s.now().UnixMicro(), id, o.version)
	if err != nil {
		return o, nil, fmt.Errorf("change order: %w", err)
	}
	if n, err := done.RowsAffected(); err != nil || n != 1 {
		return o, nil, errors.Join(fmt.Errorf("change order %s: it is no longer at version %d", id, o.version), err)
	}
	o.status, o.version = row.To, o.version+1
	event, err := orderEvent(row.Emits, o.version, o.traceID, c.eventID, o.facts)
	return o, event, err
}

// whyCancelled says it to the customer. What a service says stands behind words
// that are true of whatever it says: it failed, or a person gave up on it.
func (o orderRow) whyCancelled(c cause) string {
	switch c.input {
	case lifecycle.CustomerCancels:
		return "cancelled by the customer"
	case lifecycle.OrderPaymentDue:
		return fmt.Sprintf("not paid within %v", time.Duration(o.payBy-o.created)*time.Microsecond)
	}
	why := map[string]string{
		lifecycle.InventoryReserveFailed: "no stock was reserved",
		lifecycle.RiskRejected:           "not approved by risk",
		lifecycle.PaymentFailed:          "the payment failed",
		lifecycle.FulfilmentFailed:       "could not be shipped",
	}[c.input]
	if c.reason == "" {
		return why
	}
	return fmt.Sprintf("%s: %.300s", why, c.reason) // others' words, bounded
}

// orderEvent makes the event of an order's change to version.
func orderEvent(kind string, version int64, traceID, causation string, facts orderFacts) (*settle.Event, error) {
	payload, err := json.Marshal(facts)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", kind, err)
	}
	return &settle.Event{
		Type: kind, AggregateType: "order", AggregateID: facts.OrderID, AggregateSeq: version,
		BizKey: facts.CustomerID, TraceID: traceID, CausationID: causation, Payload: payload,
	}, nil
}
