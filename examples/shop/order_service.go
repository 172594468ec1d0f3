package shop

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/dial"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

//go:embed sql/order.sql
var orderTables string

//go:embed sql/order_facts.sql
var orderExport string

// orderService is the order service's database and what it does there.
type orderService struct{ base }

func (s *orderService) reactions() []reaction {
	return []reaction{
		{on: lifecycle.InventoryReserved, do: s.decided},
		{on: lifecycle.InventoryReserveFailed, do: s.decided},
	}
}

// inTx runs do in one transaction.
func inTx(ctx context.Context, db *dial.Database, do func(tx *sql.Tx) error) error {
	tx, err := db.Begin(ctx)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// placement is one request to create an order, and what became of it.
type placement struct {
	key     string
	request OrderRequest
	hash    [32]byte
	traceID string

	// gone is closed when nobody waits for the answer any more.
	gone    <-chan struct{}
	outcome placed
	done    chan error // receives once, after outcome is set
}

// placed says what a request led to.
type placed int

const (
	placedNew      placed = iota // the order is there now
	placedBefore                 // the same request made it earlier
	placedConflict               // the key belongs to another order
)

const findRequest = `SELECT request_hash FROM t_order WHERE request_key = ?`

const insertOrder = `INSERT INTO t_order (order_id, request_key, request_hash, customer_id, amount_cents, status, version, trace_id, created_at, updated_at)
VALUES (?, ?, ?, ?, ?, 'CREATED', 1, ?, ?, ?)`

const insertItem = `INSERT INTO t_order_item (order_id, sku, qty) VALUES (?, ?, ?)`

// place writes one order, or finds that it is there, and returns its event. It
// sees what earlier placements of the same transaction wrote.
func (s *orderService) place(ctx context.Context, tx *sql.Tx, p *placement) (*settle.Event, error) {
	var hash []byte
	err := tx.QueryRowContext(ctx, findRequest, p.key).Scan(&hash)
	switch {
	case err == nil && string(hash) == string(p.hash[:]):
		p.outcome = placedBefore
		return nil, nil
	case err == nil:
		p.outcome = placedConflict
		return nil, nil
	case !errors.Is(err, sql.ErrNoRows):
		return nil, fmt.Errorf("find request: %w", err)
	}
	id, at, r := OrderID(p.key), s.now().UnixMicro(), p.request
	if _, err := tx.ExecContext(ctx, insertOrder, id, p.key, p.hash[:], r.CustomerID, int64(r.Amount), p.traceID, at, at); err != nil {
		return nil, fmt.Errorf("insert order: %w", err)
	}
	for _, it := range r.Items {
		if _, err := tx.ExecContext(ctx, insertItem, id, it.SKU, it.Quantity); err != nil {
			return nil, fmt.Errorf("insert order line: %w", err)
		}
	}
	p.outcome = placedNew
	return orderEvent(lifecycle.OrderCreated, 1, p.traceID, "", orderFacts{OrderID: id, CustomerID: r.CustomerID, Amount: r.Amount, Items: r.Items})
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
