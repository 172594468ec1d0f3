package shop

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/dial"
)

// reservationFacts is the payload of the events of a reservation.
type reservationFacts struct {
	OrderID string `json:"orderId"`
	Items   []Item `json:"items"`
	Reason  string `json:"reason,omitempty"`
}

// heard takes every event that an order's machine knows: the order changes as
// the machine says and its change becomes an event, both in tx.
func (s *orderService) heard(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
	var said struct {
		Reason string `json:"reason"`
	}
	if err := json.Unmarshal(e.Payload, &said); err != nil {
		return settle.Permanent(fmt.Errorf("read payload of %s: %w", e.Type, err))
	}
	_, event, err := s.advance(ctx, tx, e.AggregateID, cause{input: e.Type, reason: said.Reason, eventID: e.ID})
	if err != nil || event == nil {
		return err
	}
	return s.db.Append(ctx, tx, event)
}

// items reads lines of (sku, quantity) of an order.
func items(ctx context.Context, db *dial.Database, tx *sql.Tx, query, orderID string) ([]Item, error) {
	rows, err := queryRows(ctx, db, tx, query, orderID)
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
