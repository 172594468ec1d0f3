package shop

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/dial"
)

//go:embed sql/inventory.sql
var inventoryTables string

// inventoryService is the inventory service's database and what it does there.
type inventoryService struct {
	db  *dial.Database
	now func() time.Time
}

func openInventory(ctx context.Context, dir string, crash func(string)) (*inventoryService, error) {
	db, err := openService(ctx, dir, "inventory", inventoryTables, crash)
	if err != nil {
		return nil, err
	}
	return &inventoryService{db: db, now: time.Now}, nil
}

// reservation is the row of t_reservation while it is worked on.
type reservation struct {
	orderID, state string
	version        int64
	at             int64
	event          *settle.Event // the cause
}

const findReservation = `SELECT state, version FROM t_reservation WHERE order_id = ?`

const saveReservation = `INSERT INTO t_reservation (order_id, state, version, updated_at) VALUES (?, ?, ?, ?)
ON CONFLICT (order_id) DO UPDATE SET state = excluded.state, version = excluded.version, updated_at = excluded.updated_at`

func (s *inventoryService) find(ctx context.Context, tx *sql.Tx, e *settle.Event) (reservation, error) {
	r := reservation{orderID: e.AggregateID, at: s.now().UnixMicro(), event: e}
	err := tx.QueryRowContext(ctx, findReservation, r.orderID).Scan(&r.state, &r.version)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return r, fmt.Errorf("read reservation: %w", err)
	}
	return r, nil
}

// created takes order.created: all lines are reserved, or none.
func (s *inventoryService) created(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
	var order orderFacts
	if err := json.Unmarshal(e.Payload, &order); err != nil || len(order.Items) == 0 {
		return settle.Permanent(errors.Join(fmt.Errorf("read payload of %s: no order lines", e.Type), err))
	}
	r, err := s.find(ctx, tx, e)
	if err != nil {
		return err
	}
	when, reason := "", "the order was cancelled before its stock was reserved"
	if r.state == reservationNone {
		if when, reason, err = s.look(ctx, tx, order.Items); err != nil {
			return err
		}
	}
	row, ok := next(reservationMachine(), r.state, e.Type, when)
	if !ok {
		return settle.Permanent(fmt.Errorf("a reservation that is %s has no answer to %s", r.state, e.Type))
	}
	if !row.changes() {
		return nil
	}
	for _, it := range order.Items {
		if err := s.reserveLine(ctx, tx, r, it, row.to == reservationReserved); err != nil {
			return err
		}
	}
	return s.advance(ctx, tx, r, row, reservationFacts{OrderID: r.orderID, Items: order.Items, Reason: reason})
}

const findStock = `SELECT available FROM t_stock WHERE sku = ?`

// look says whether there is enough of every line, and if not what is missing.
// An article that is not known is an error: stocking it and trying again helps.
func (s *inventoryService) look(ctx context.Context, tx *sql.Tx, lines []Item) (when, reason string, err error) {
	when = inStock
	for _, it := range lines {
		var available int64
		err := tx.QueryRowContext(ctx, findStock, it.SKU).Scan(&available)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return "", "", fmt.Errorf("sku %s is not stocked", it.SKU)
		case err != nil:
			return "", "", fmt.Errorf("read stock: %w", err)
		case available < int64(it.Quantity) && when == inStock:
			when, reason = short, fmt.Sprintf("%d of %s asked for, %d available", it.Quantity, it.SKU, available)
		}
	}
	return when, reason, nil
}

const insertLine = `INSERT INTO t_reservation_line (order_id, sku, qty, state, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?)`

const takeStock = `UPDATE t_stock SET available = available - ?1, reserved = reserved + ?1 WHERE sku = ?2`

const insertLedger = `INSERT INTO t_stock_ledger (cause_event_id, sku, kind, order_id, d_available, d_reserved, d_sold, created_at) VALUES (?, ?, ?, ?, ?, ?, 0, ?)`

func (s *inventoryService) reserveLine(ctx context.Context, tx *sql.Tx, r reservation, it Item, held bool) error {
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
	r, err := s.find(ctx, tx, e)
	if err != nil {
		return err
	}
	row, ok := next(reservationMachine(), r.state, e.Type, "")
	if !ok {
		return settle.Permanent(fmt.Errorf("a reservation that is %s has no answer to %s", r.state, e.Type))
	}
	if !row.changes() {
		return nil
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
	return s.advance(ctx, tx, r, row, reservationFacts{OrderID: r.orderID, Items: held})
}

// advance writes the reservation's new state and, if the row says so, its event.
func (s *inventoryService) advance(ctx context.Context, tx *sql.Tx, r reservation, row transition, facts reservationFacts) error {
	if row.emits != "" {
		r.version++
	}
	if _, err := tx.ExecContext(ctx, saveReservation, r.orderID, row.to, r.version, r.at); err != nil {
		return fmt.Errorf("save reservation: %w", err)
	}
	if row.emits == "" {
		return nil
	}
	payload, err := json.Marshal(facts)
	if err != nil {
		return fmt.Errorf("encode %s: %w", row.emits, err)
	}
	return s.db.Append(ctx, tx, &settle.Event{
		Type: row.emits, AggregateType: "reservation", AggregateID: r.orderID, AggregateSeq: r.version,
		BizKey: r.event.BizKey, TraceID: r.event.TraceID, CausationID: r.event.ID, Payload: payload,
	})
}
