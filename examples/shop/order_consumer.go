package shop

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// reservationFacts is the payload of the events of a reservation.
type reservationFacts struct {
	OrderID string `json:"orderId"`
	Items   []Item `json:"items"`
	Reason  string `json:"reason,omitempty"`
}

const findOrder = `SELECT customer_id, amount_cents, status, version, trace_id FROM t_order WHERE order_id = ?`

const findItems = `SELECT sku, qty FROM t_order_item WHERE order_id = ? ORDER BY sku`

const advanceOrder = `UPDATE t_order SET status = ?, reason = ?, version = ?, updated_at = ? WHERE order_id = ? AND version = ?`

// decided takes inventory.reserved and inventory.reserve_failed: the order
// changes as orderMachine says and its change becomes an event, both in tx.
func (s *orderService) decided(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
	var answer reservationFacts
	if err := json.Unmarshal(e.Payload, &answer); err != nil {
		return settle.Permanent(fmt.Errorf("read payload of %s: %w", e.Type, err))
	}
	facts := orderFacts{OrderID: e.AggregateID, Reason: answer.Reason}
	var status, traceID string
	var version int64
	err := tx.QueryRowContext(ctx, findOrder, facts.OrderID).Scan(&facts.CustomerID, &facts.Amount, &status, &version, &traceID)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("order %s is not known here", facts.OrderID)
	}
	if err != nil {
		return fmt.Errorf("read order: %w", err)
	}
	row, ok := lifecycle.Order().Next(status, e.Type, "")
	if !ok {
		return settle.Permanent(fmt.Errorf("an order that is %s has no answer to %s", status, e.Type))
	}
	if !row.Changes() {
		return nil
	}
	if facts.Items, err = items(ctx, tx, findItems, facts.OrderID); err != nil {
		return err
	}
	done, err := tx.ExecContext(ctx, advanceOrder, row.To, facts.Reason, version+1, s.now().UnixMicro(), facts.OrderID, version)
	if err != nil {
		return fmt.Errorf("change order: %w", err)
	}
	if n, err := done.RowsAffected(); err != nil || n != 1 {
		return errors.Join(fmt.Errorf("change order %s: it is no longer at version %d", facts.OrderID, version), err)
	}
	event, err := orderEvent(row.Emits, version+1, traceID, e.ID, facts)
	if err != nil {
		return err
	}
	return s.db.Append(ctx, tx, event)
}

// items reads lines of (sku, quantity) of an order.
func items(ctx context.Context, tx *sql.Tx, query, orderID string) ([]Item, error) {
	rows, err := tx.QueryContext(ctx, query, orderID)
	if err != nil {
		return nil, fmt.Errorf("read lines: %w", err)
	}
	return scanItems(rows)
}

func scanItems(rows *sql.Rows) ([]Item, error) {
	defer func() { _ = rows.Close() }()
	var all []Item
	for rows.Next() {
		var it Item
		if err := rows.Scan(&it.SKU, &it.Quantity); err != nil {
			return nil, fmt.Errorf("read lines: %w", err)
		}
		all = append(all, it)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read lines: %w", err)
	}
	return all, nil
}
