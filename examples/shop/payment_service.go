package shop

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/consumer"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// paymentService is the payment service's database and what it does there.
type paymentService struct {
	base
	payments aggregate
}

func newPayment(b base) *paymentService {
	return &paymentService{base: b, payments: aggregate{machine: lifecycle.Payment(), table: "t_payment", db: b.db, now: b.now}}
}

func (s *paymentService) reactions() []reaction {
	return []reaction{
		{on: lifecycle.OrderCreated, do: s.take},
		{on: lifecycle.OrderConfirmed, do: s.take, undo: s.giveUp, outside: true},
		{on: lifecycle.OrderPayRequested, do: s.take, undo: s.giveUp, outside: true},
		{on: lifecycle.OrderCancelled, do: s.take, outside: true},
	}
}

// paymentFacts is the payload of the events of a payment. What was refunded is
// the whole amount.
type paymentFacts struct {
	OrderID string `json:"orderId"`
	Amount  Cents  `json:"amount"`
	Reason  string `json:"reason,omitempty"`
}

// take takes an event of an order.
func (s *paymentService) take(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
	order, err := orderOf(e)
	if err != nil {
		return err
	}
	return s.step(ctx, tx, e, e.Type, order)
}

// giveUp undoes order.confirmed and order.pay_requested: no money is taken for
// the order any more, and what may have been taken goes back.
func (s *paymentService) giveUp(ctx context.Context, tx *sql.Tx, e *settle.Event) error {
	order, err := orderOf(e)
	if err != nil {
		return err
	}
	order.Reason = "taking the money was given up"
	return s.step(ctx, tx, e, lifecycle.Compensation(e.Type), order)
}

const amendPayment = `UPDATE t_payment SET amount_cents = $1, declined = $2 WHERE order_id = $3`

// step asks the provider what the table wants to know and writes what the
// table then says.
func (s *paymentService) step(ctx context.Context, tx *sql.Tx, e *settle.Event, input string, order orderFacts) error {
	p, err := s.payments.find(ctx, tx, e)
	if err != nil {
		return err
	}
	when, declined, err := s.ask(ctx, p, input, order)
	if err != nil {
		return err
	}
	// Crash here: the provider has done its part and nobody here knows. The
	// event comes again, and so does the provider's answer.
	row, err := s.payments.next(p, input, when)
	if err != nil || !row.Changes() {
		return err
	}
	facts := paymentFacts{OrderID: p.orderID, Amount: order.Amount, Reason: order.Reason}
	if declined != "" {
		facts.Reason = declined
	}
	if err := s.payments.save(ctx, tx, p, row, facts); err != nil {
		return err
	}
	if _, err := exec(ctx, s.db, tx, amendPayment, int64(order.Amount), declined, p.orderID); err != nil {
		return fmt.Errorf("amend payment: %w", err)
	}
	return nil
}

// ask finds out on what the answer to input depends, and why the provider
// declined if it did. An order of amount zero has nothing for the provider.
func (s *paymentService) ask(ctx context.Context, p instance, input string, order orderFacts) (when, declined string, err error) {
	if order.Pay == PayLater && s.payments.asks(p, input, lifecycle.PaysLater) {
		return lifecycle.PaysLater, "", nil
	}
	switch providerCall(s.payments.machine, p.state, input) {
	case callCapture:
		if order.Amount > 0 {
			declined, err = consumer.Ask(ctx, func(ctx context.Context) (string, error) {
				return s.outside.provider.Capture(ctx, p.orderID, order.CustomerID, order.Amount)
			})
		}
		if err != nil {
			return "", "", fmt.Errorf("capture %v: %w", order.Amount, err)
		}
		if declined != "" {
			return lifecycle.Declined, declined, nil
		}
		return lifecycle.Taken, "", nil
	case callVoid:
		returned := false
		if order.Amount > 0 {
			returned, err = consumer.Ask(ctx, func(ctx context.Context) (bool, error) { return s.outside.provider.Void(ctx, p.orderID) })
		}
		if err != nil {
			return "", "", fmt.Errorf("void payment: %w", err)
		}
		if returned {
			return lifecycle.MoneyReturned, "", nil
		}
		return lifecycle.NothingTaken, "", nil
	}
	return "", "", nil
}
