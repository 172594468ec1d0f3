package shop

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

//go:embed sql/inventory.sql
var inventoryTables string

//go:embed sql/inventory_facts.sql
var inventoryExport string

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
		{on: lifecycle.OrderCreated, do: s.created},
		{on: lifecycle.OrderCancelled, do: s.cancelled},
	}
}

// created takes order.created: all lines are reserved, or none.
func (s *inventoryService) created(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
	order, err := orderOf(e)
	if err != nil {
		return err
	}
	r, err := s.reservations.find(ctx, tx, e)
	if err != nil {
		return err
	}
	when, reason := "", "the order was cancelled before its stock was reserved"
	if r.state == lifecycle.None {
		if when, reason, err = s.look(ctx, tx, order.Items); err != nil {
			return err
		}
	}
	row, err := s.reservations.next(r, e.Type, when)
	if err != nil || !row.Changes() {
		return err
	}
	for _, it := range order.Items {
		if err := s.reserveLine(ctx, tx, r, it, row.To == lifecycle.ReservationReserved); err != nil {
			return err
		}
	}
	return s.reservations.save(ctx, tx, r, row, reservationFacts{OrderID: r.orderID, Items: order.Items, Reason: reason})
}

const findStock = `SELECT available FROM t_stock WHERE sku = ?`

// look says whether there is enough of every line, and if not what is missing.
// An article that is not known is an error: stocking it and trying again helps.
func (s *inventoryService) look(ctx context.Context, tx *sql.Tx, lines []Item) (when, reason string, err error) {
	when = lifecycle.InStock
	for _, it := range lines {
		var available int64
		err := tx.QueryRowContext(ctx, findStock, it.SKU).Scan(&available)
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

const insertLine = `INSERT INTO t_reservation_line (order_id, sku, qty, state, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)`

const takeStock = `UPDATE t_stock SET available = available - ?1, reserved = reserved + ?1 WHERE sku = ?2`

const insertLedger = `INSERT INTO t_stock_ledger (cause_event_id, sku, kind, order_id, d_available, d_reserved, d_sold, created_at) VALUES (?, ?, ?, ?, ?, ?, 0, ?)`

func (s *inventoryService) reserveLine(ctx context.Context, tx *sql.Tx, r instance, it Item, held bool) error {
	state := "INIT"
	if held {
		state = "RESERVED"
		if _, err := tx.ExecContext(ctx, takeStock, it.Quantity, it.SKU); err != nil {
			return fmt.Errorf("take %d of %s: %w", it.Quantity, it.SKU, err)
		}
		if _, err := tx.ExecContext(ctx, insertLedger, r.event.ID, it.SKU, "RESERVE", r.orderID, -it.Quantity, it.Quantity, r.at); err != nil {
			return fmt.Errorf("book %s: %w", it.SKU, err)
		}
	}
	if _, err := tx.ExecContext(ctx, insertLine, r.orderID, it.SKU, it.Quantity, state, r.at, r.at); err != nil {
		return fmt.Errorf("insert reservation line: %w", err)
	}
	return nil
}

const findHeld = `SELECT sku, qty FROM t_reservation_line WHERE order_id = ? AND state = 'RESERVED' ORDER BY sku`

const giveBack = `UPDATE t_stock SET available = available + ?1, reserved = reserved - ?1 WHERE sku = ?2`

const releaseLine = `UPDATE t_reservation_line SET state = 'RELEASED', updated_at = ? WHERE order_id = ? AND sku = ?`

// cancelled takes order.cancelled: what is held for the order is given back,
// and nothing will be held for it any more.
func (s *inventoryService) cancelled(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
	r, err := s.reservations.find(ctx, tx, e)
	if err != nil {
		return err
	}
	row, err := s.reservations.next(r, e.Type, "")
	if err != nil || !row.Changes() {
		return err
	}
	held, err := items(ctx, tx, findHeld, r.orderID)
	if err != nil {
		return err
	}
	for _, it := range held {
		if _, err := tx.ExecContext(ctx, giveBack, it.Quantity, it.SKU); err != nil {
			return fmt.Errorf("give back %d of %s: %w", it.Quantity, it.SKU, err)
		}
		if _, err := tx.ExecContext(ctx, insertLedger, e.ID, it.SKU, "RELEASE", r.orderID, it.Quantity, -it.Quantity, r.at); err != nil {
			return fmt.Errorf("book %s: %w", it.SKU, err)
		}
		if _, err := tx.ExecContext(ctx, releaseLine, r.at, r.orderID, it.SKU); err != nil {
			return fmt.Errorf("release reservation line: %w", err)
		}
	}
	return s.reservations.save(ctx, tx, r, row, reservationFacts{OrderID: r.orderID, Items: held})
}
