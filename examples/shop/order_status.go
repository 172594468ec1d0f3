package shop

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// ErrNoOrder is returned for an order id that is not there.
var ErrNoOrder = errors.New("no such order")

// OrderStatus is what GET /orders/{id} tells of an order.
type OrderStatus struct {
	OrderID    string `json:"orderId"`
	CustomerID string `json:"customerId"`
	Amount     Cents  `json:"amount"`
	Items      []Item `json:"items"`
	Status     string `json:"status"`
	Reason     string `json:"reason,omitempty"`
	// Pay is now once its customer wants to pay. An order that is not paid by
	// PayBy is cancelled.
	Pay       string    `json:"pay"`
	PayBy     time.Time `json:"payBy"`
	Version   int64     `json:"version"`
	TraceID   string    `json:"traceId"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
	// Settled is true when the order is completed or cancelled and every event of
	// it is done at each service that handles it, its timers aside. Otherwise
	// Waiting says what for.
	Settled bool   `json:"settled"`
	Waiting string `json:"waiting,omitempty"`
}

const readOrder = `SELECT customer_id, amount_cents, status, reason, pay, pay_by, version, trace_id, created_at, updated_at FROM t_order WHERE order_id = $1`

// status reads one order; ErrNoOrder if it is not there. Whether it has settled
// is for a view to say, which sees all services.
func (s *orderService) status(ctx context.Context, id string) (OrderStatus, error) {
	o := OrderStatus{OrderID: id}
	var created, updated, payBy int64
	err := queryRow(ctx, s.db, s.db.Reader, readOrder, id).Scan(&o.CustomerID, &o.Amount, &o.Status, &o.Reason, &o.Pay, &payBy, &o.Version, &o.TraceID, &created, &updated)
	if errors.Is(err, sql.ErrNoRows) {
		return o, ErrNoOrder
	}
	if err != nil {
		return o, fmt.Errorf("read order: %w", err)
	}
	o.CreatedAt, o.UpdatedAt, o.PayBy = time.UnixMicro(created).UTC(), time.UnixMicro(updated).UTC(), time.UnixMicro(payBy).UTC()
	rows, err := queryRows(ctx, s.db, s.db.Reader, findItems, id)
	if err != nil {
		return o, fmt.Errorf("read lines: %w", err)
	}
	o.Items, err = scanItems(rows)
	return o, err
}
