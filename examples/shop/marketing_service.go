package shop

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// marketingService is the marketing service's database and what it does there.
// The coupon system is asked only when the machine says that there is
// something to do.
type marketingService struct {
	base
	rewards aggregate
}

func newMarketing(b base) *marketingService {
	return &marketingService{base: b, rewards: aggregate{machine: lifecycle.Reward(), table: "t_reward", db: b.db, now: b.now}}
}

func (s *marketingService) reactions() []reaction {
	return []reaction{
		{on: lifecycle.OrderPaid, do: s.paid, undo: s.giveUp, outside: true},
		{on: lifecycle.OrderCancelled, do: s.cancelled, outside: true},
	}
}

// rewardFacts is the payload of marketing.granted.
type rewardFacts struct {
	OrderID string `json:"orderId"`
	Points  int64  `json:"points"`
	// Coupon is its code; empty when the order earned none.
	Coupon string `json:"coupon"`
}

// revocationFacts is the payload of marketing.revoked.
type revocationFacts struct {
	OrderID string `json:"orderId"`
	Reason  string `json:"reason"`
}

const noteReward = `UPDATE t_reward SET customer_id = $1, points = $2, coupon = $3 WHERE order_id = $4`

const insertPoints = `INSERT INTO t_points_ledger (cause_event_id, kind, customer_id, order_id, points, created_at) VALUES ($1, $2, $3, $4, $5, $6)`

// paid takes order.paid: points, and a coupon if the order is worth one.
func (s *marketingService) paid(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
	order, err := orderOf(e)
	if err != nil {
		return err
	}
	r, err := s.rewards.find(ctx, tx, e)
	if err != nil {
		return err
	}
	row, err := s.rewards.next(r, e.Type, "")
	if err != nil || !row.Changes() {
		return err
	}
	facts := rewardFacts{OrderID: r.orderID, Points: points(order.Amount)}
	if value := s.rules.coupon(order.Amount); value > 0 {
		facts.Coupon, err = consumer.Ask(ctx, func(ctx context.Context) (string, error) {
			return s.outside.coupons.Grant(ctx, r.orderID, order.CustomerID, value)
		})
		if err != nil {
			return fmt.Errorf("grant coupon for order %s: %w", r.orderID, err)
		}
		// Crash here: the customer has the coupon and nothing is noted; the
		// event comes again and the coupon system gives the same code.
	}
	if err := s.rewards.save(ctx, tx, r, row, facts); err != nil {
		return err
	}
	if _, err := exec(ctx, s.db, tx, noteReward, order.CustomerID, facts.Points, facts.Coupon, r.orderID); err != nil {
		return fmt.Errorf("note reward: %w", err)
	}
	if _, err := exec(ctx, s.db, tx, insertPoints, e.ID, "GRANT", order.CustomerID, r.orderID, facts.Points, r.at); err != nil {
		return fmt.Errorf("book points: %w", err)
	}
	return nil
}

// cancelled takes order.cancelled: what was granted is taken back. Where
// nothing was, the coupon system need not be asked: an order.paid whose answer
// was lost is tried again, or given up, before later events of its order are
// handled.
func (s *marketingService) cancelled(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
	r, err := s.rewards.find(ctx, tx, e)
	if err != nil {
		return err
	}
	row, err := s.rewards.next(r, e.Type, "")
	if err != nil || !row.Changes() {
		return err
	}
	if r.state == lifecycle.RewardGranted {
		if err := s.takeBack(ctx, tx, r); err != nil {
			return err
		}
	}
	return s.rewards.save(ctx, tx, r, row, revocationFacts{OrderID: r.orderID, Reason: "the order was cancelled"})
}

const findGranted = `SELECT customer_id, points FROM t_reward WHERE order_id = $1`

const clearReward = `UPDATE t_reward SET points = 0, coupon = '' WHERE order_id = $1`

// takeBack revokes what r's order was granted. The coupon system is asked even
// when no coupon is known: a first try, by rules that were changed since, may
// have granted one without an answer.
func (s *marketingService) takeBack(ctx context.Context, tx *sql.Tx, r instance) error {
	var customerID string
	var granted int64
	if err := queryRow(ctx, s.db, tx, findGranted, r.orderID).Scan(&customerID, &granted); err != nil {
		return fmt.Errorf("read reward: %w", err)
	}
	if err := s.revoke(ctx, r.orderID); err != nil {
		return err
	}
	if _, err := exec(ctx, s.db, tx, clearReward, r.orderID); err != nil {
		return fmt.Errorf("clear reward: %w", err)
	}
	if _, err := exec(ctx, s.db, tx, insertPoints, r.event.ID, "REVOKE", customerID, r.orderID, -granted, r.at); err != nil {
		return fmt.Errorf("book points: %w", err)
	}
	return nil
}

// revoke takes the order's coupon back, if there is one, and bars another.
func (s *marketingService) revoke(ctx context.Context, orderID string) error {
	_, err := consumer.Ask(ctx, func(ctx context.Context) (any, error) { return nil, s.outside.coupons.Revoke(ctx, orderID) })
	if err != nil {
		return fmt.Errorf("revoke coupon of order %s: %w", orderID, err)
	}
	// Crash here: the coupon is gone and nobody knows; what asked for it is run
	// again, and the coupon system finds nothing to do.
	return nil
}

// giveUp compensates order.paid: the coupon system, which may have granted a
// coupon although no answer came, has none for the order any more, and no
// points are given. What is granted stays granted.
func (s *marketingService) giveUp(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
	r, err := s.rewards.find(ctx, tx, e)
	if err != nil {
		return err
	}
	row, err := s.rewards.next(r, lifecycle.Compensation(e.Type), "")
	if err != nil || !row.Changes() {
		return err
	}
	if err := s.revoke(ctx, r.orderID); err != nil {
		return err
	}
	return s.rewards.save(ctx, tx, r, row, revocationFacts{OrderID: r.orderID, Reason: "granting its reward was given up"})
}
