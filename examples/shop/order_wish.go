package shop

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// wish is what a customer asks of an order that was placed earlier: to pay it,
// or to cancel it. A wish that is fulfilled already changes nothing.
type wish struct {
	orderID string
	input   string // lifecycle.CustomerPays or CustomerCancels

	order   orderRow // as it is then
	unknown bool     // there is no such order
}

// apply lets the order's machine take the wish.
func (w *wish) apply(ctx context.Context, tx *sql.Tx, s *orderService) ([]*settle.Event, error) {
	w.unknown = false
	order, event, err := s.advance(ctx, tx, w.orderID, cause{input: w.input})
	w.order = order
	switch {
	case errors.Is(err, ErrNoOrder):
		w.unknown = true
		return nil, nil
	case err != nil || event == nil:
		return nil, err
	}
	return []*settle.Event{event}, nil
}

// refused says why the wish can't be fulfilled any more, or "".
func (w *wish) refused() string {
	cancelled := w.order.status == lifecycle.Cancelled
	switch {
	case w.input == lifecycle.CustomerPays && cancelled:
		return fmt.Sprintf("the order was cancelled (%s); it can't be paid any more", w.order.facts.Reason)
	case w.input == lifecycle.CustomerCancels && !cancelled:
		return fmt.Sprintf("the order is %s; it can't be cancelled any more", w.order.status)
	}
	return ""
}
