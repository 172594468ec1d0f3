package shop

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// placement is one request to create an order, and what became of it.
type placement struct {
	key     string
	request OrderRequest
	hash    [32]byte
	traceID string
	outcome placed
}

// placed says what a request led to.
type placed int

const (
	placedNew      placed = iota // the order is there now
	placedBefore                 // the same request made it earlier
	placedConflict               // the key belongs to another order
)

const insertOrder = `INSERT INTO t_order (order_id, request_key, request_hash, customer_id, amount_cents, status, pay, pay_by, version, trace_id, created_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1, $9, $10, $11) ON CONFLICT DO NOTHING`

const insertItem = `INSERT INTO t_order_item (order_id, sku, qty) VALUES ($1, $2, $3)`

// apply writes the order with its lines, or finds that it is there, and
// returns order.created and the timer of its payment.
func (p *placement) apply(ctx context.Context, tx *sql.Tx, s *orderService) ([]*settle.Event, error) {
	at, r := s.now(), p.request
	due := at.Add(s.rules.PaymentWindow)
	facts := orderFacts{OrderID: OrderID(p.key), CustomerID: r.CustomerID, Amount: r.Amount, Items: r.Items, Pay: r.pay()}
	done, err := exec(ctx, s.db, tx, insertOrder, facts.OrderID, p.key, p.hash[:], r.CustomerID, int64(r.Amount), lifecycle.Created,
		facts.Pay, due.UnixMicro(), p.traceID, at.UnixMicro(), at.UnixMicro())
	if err != nil {
		return nil, fmt.Errorf("insert order: %w", err)
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return nil, errors.Join(err, p.repeated(ctx, tx, s))
	}
	for _, it := range r.Items {
		if _, err := exec(ctx, s.db, tx, insertItem, facts.OrderID, it.SKU, it.Quantity); err != nil {
			return nil, fmt.Errorf("insert order line: %w", err)
		}
	}
	p.outcome = placedNew
	return p.events(facts, due)
}

const findRequest = `SELECT request_hash FROM t_order WHERE request_key = $1`

// repeated finds what the key was used for.
func (p *placement) repeated(ctx context.Context, tx *sql.Tx, s *orderService) error {
	var hash []byte
	if err := queryRow(ctx, s.db, tx, findRequest, p.key).Scan(&hash); err != nil {
		return fmt.Errorf("find request: %w", err)
	}
	p.outcome = placedConflict
	if bytes.Equal(hash, p.hash[:]) {
		p.outcome = placedBefore
	}
	return nil
}

func (p *placement) events(facts orderFacts, due time.Time) ([]*settle.Event, error) {
	created, err := orderEvent(lifecycle.OrderCreated, 1, p.traceID, "", facts)
	if err != nil {
		return nil, err
	}
	timer, err := orderEvent(lifecycle.OrderPaymentDue, 0, p.traceID, "", facts)
	if err != nil {
		return nil, err
	}
	timer.AggregateType, timer.NotBefore = lifecycle.OrderTimer, due
	return []*settle.Event{created, timer}, nil
}
