package shop

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// movement is one kind of movement of stock: what each piece adds to what is
// available, reserved and sold, and what a reservation's line was before and
// is after it.
type movement struct {
	kind                      string
	available, reserved, sold int
	from, to                  string
}

// movements are what a reservation's change of state does to the stock of each
// of its lines, one after the other. A line is INIT while nothing is held for
// it.
func movements(t lifecycle.Transition) []movement {
	reserve := movement{kind: "RESERVE", available: -1, reserved: 1, from: "INIT", to: "RESERVED"}
	sell := movement{kind: "SELL", reserved: -1, sold: 1, from: "RESERVED", to: "CONFIRMED"}
	switch t.To {
	case lifecycle.ReservationReserved:
		return []movement{reserve}
	case lifecycle.ReservationConfirmed:
		if t.From == lifecycle.ReservationReserved {
			return []movement{sell}
		}
		return []movement{reserve, sell}
	case lifecycle.ReservationReleased:
		if t.From == lifecycle.ReservationReserved {
			return []movement{{kind: "RELEASE", available: 1, reserved: -1, from: "RESERVED", to: "RELEASED"}}
		}
		return []movement{{kind: "RETURN", available: 1, sold: -1, from: "CONFIRMED", to: "RELEASED"}}
	}
	return nil
}

const bookMovement = `INSERT INTO t_stock_ledger (cause_event_id, sku, kind, order_id, d_available, d_reserved, d_sold, created_at)
SELECT $1, sku, $2, order_id, $3 * qty, $4 * qty, $5 * qty, $6 FROM t_reservation_line WHERE order_id = $7 AND state = $8`

const moveStock = `UPDATE t_stock SET available = available + $1 * l.qty, reserved = reserved + $2 * l.qty, sold = sold + $3 * l.qty
FROM t_reservation_line l WHERE l.order_id = $4 AND l.state = $5 AND l.sku = t_stock.sku`

const moveLines = `UPDATE t_reservation_line SET state = $1, updated_at = $2 WHERE order_id = $3 AND state = $4`

// move makes one movement of all lines of an order.
func (s *inventoryService) move(ctx context.Context, tx *sql.Tx, r instance, m movement) error {
	if _, err := exec(ctx, s.db, tx, bookMovement, r.event.ID, m.kind, m.available, m.reserved, m.sold, r.at, r.orderID, m.from); err != nil {
		return fmt.Errorf("book %s: %w", m.kind, err)
	}
	if _, err := exec(ctx, s.db, tx, moveStock, m.available, m.reserved, m.sold, r.orderID, m.from); err != nil {
		return fmt.Errorf("move stock by %s: %w", m.kind, err)
	}
	if _, err := exec(ctx, s.db, tx, moveLines, m.to, r.at, r.orderID, m.from); err != nil {
		return fmt.Errorf("move reservation lines by %s: %w", m.kind, err)
	}
	return nil
}
