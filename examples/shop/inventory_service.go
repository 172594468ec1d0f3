package shop

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// inventoryService is the inventory service's database and what it does there.
type inventoryService struct {
	base
	reservations aggregate
}

func newInventory(b base) *inventoryService {
	return &inventoryService{base: b, reservations: aggregate{machine: lifecycle.Reservation(), table: "t_reservation", db: b.db, now: b.now}}
}

func (s *inventoryService) reactions() []reaction {
	return []reaction{
		{on: lifecycle.OrderCreated, do: s.created, undo: s.giveUp},
		{on: lifecycle.OrderPaid, do: s.conclude},
		{on: lifecycle.OrderCancelled, do: s.conclude},
	}
}

// created takes order.created: all lines are reserved, or none.
func (s *inventoryService) created(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
	return s.begin(ctx, tx, e, e.Type, "the order was cancelled before its stock was reserved")
}

// giveUp undoes order.created: no line is reserved.
func (s *inventoryService) giveUp(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
	return s.begin(ctx, tx, e, lifecycle.Compensation(e.Type), "reserving it was given up")
}

// begin makes the lines of an order known and decides what becomes of them;
// reason is why nothing is reserved when that is not for want of stock.
func (s *inventoryService) begin(ctx context.Context, tx *sql.Tx, e *settle.Event, input, reason string) error {
	order, err := orderOf(e)
	if err != nil {
		return err
	}
	r, err := s.reservations.find(ctx, tx, e)
	if err != nil {
		return err
	}
	when := ""
	if s.reservations.asks(r, input, lifecycle.InStock) {
		if when, reason, err = s.look(ctx, tx, order.Items); err != nil {
			return err
		}
	}
	row, err := s.reservations.next(r, input, when)
	if err != nil || !row.Changes() {
		return err
	}
	for _, it := range order.Items {
		if _, err := exec(ctx, s.db, tx, insertLine, r.orderID, it.SKU, it.Quantity, r.at, r.at); err != nil {
			return fmt.Errorf("insert reservation line: %w", err)
		}
	}
	return s.apply(ctx, tx, r, row, reservationFacts{OrderID: r.orderID, Items: order.Items, Reason: reason})
}

const findStock = `SELECT available FROM t_stock WHERE sku = $1`

// look says whether there is enough of every line, and if not what is missing.
// An article that is not known is an error: stocking it and trying again helps.
func (s *inventoryService) look(ctx context.Context, tx *sql.Tx, lines []Item) (when, reason string, err error) {
	when = lifecycle.InStock
	// Whoever locks several articles does so in one order, lest two wait for
	// each other.
	lines = slices.SortedFunc(slices.Values(lines), func(a, b Item) int { return strings.Compare(a.SKU, b.SKU) })
	for _, it := range lines {
		var available int64
		err := queryRow(ctx, s.db, tx, locked(s.db, findStock), it.SKU).Scan(&available)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return "", "", fmt.Errorf("sku %s is not stocked", it.SKU)
		case err != nil:
			return "", "", fmt.Errorf("read stock: %w", err)
		case available < int64(it.Quantity) && when == lifecycle.InStock:
			when, reason = lifecycle.Short, fmt.Sprintf("%d of %s asked for, %d available", it.Quantity, it.SKU, available)
		}
	}
	return when, reason, nil
}

const insertLine = `INSERT INTO t_reservation_line (order_id, sku, qty, state, created_at, updated_at) VALUES ($1, $2, $3, 'INIT', $4, $5)`

const findLines = `SELECT sku, qty FROM t_reservation_line WHERE order_id = $1 ORDER BY sku`

// conclude takes order.paid, which sells what is held for the order, and
// order.cancelled, which gives it back whether it was sold or not; then
// nothing will be held for it any more.
func (s *inventoryService) conclude(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
	r, err := s.reservations.find(ctx, tx, e)
	if err != nil {
		return err
	}
	row, err := s.reservations.next(r, e.Type, "")
	if err != nil || !row.Changes() {
		return err
	}
	lines, err := items(ctx, s.db, tx, findLines, r.orderID)
	if err != nil {
		return err
	}
	return s.apply(ctx, tx, r, row, reservationFacts{OrderID: r.orderID, Items: lines})
}

// apply moves the stock as a transition asks, and saves it with its event.
func (s *inventoryService) apply(ctx context.Context, tx *sql.Tx, r instance, row lifecycle.Transition, facts reservationFacts) error {
	for _, m := range movements(row) {
		if err := s.move(ctx, tx, r, m); err != nil {
			return err
		}
	}
	return s.reservations.save(ctx, tx, r, row, facts)
}
