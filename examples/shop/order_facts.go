package shop

import (
	"encoding/json"
	"fmt"

	"github.com/settlemq/settle"
)

// When an order is paid; see OrderRequest.Pay.
const (
	PayNow   = "now"
	PayLater = "later"
)

// orderFacts is the payload of every event of an order: the whole order, so
// that nobody has to ask back and an early event needs no earlier one.
type orderFacts struct {
	OrderID    string `json:"orderId"`
	CustomerID string `json:"customerId"`
	Amount     Cents  `json:"amount"`
	Items      []Item `json:"items"`
	// Pay is now once the customer wants to pay, later before that.
	Pay string `json:"pay"`
	// Reason says why it was cancelled.
	Reason string `json:"reason,omitempty"`
}

// orderOf returns the order in an event's payload. What can't be read now
// can't be read later.
func orderOf(e *settle.Event) (orderFacts, error) {
	var o orderFacts
	if err := json.Unmarshal(e.Payload, &o); err != nil {
		return o, settle.Permanent(fmt.Errorf("read payload of %s: %w", e.Type, err))
	}
	if len(o.Items) == 0 {
		return o, settle.Permanent(fmt.Errorf("read payload of %s: no order lines", e.Type))
	}
	return o, nil
}
