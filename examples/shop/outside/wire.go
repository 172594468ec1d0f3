package outside

import "fmt"

// Line is one line of a shipment.
type Line struct {
	SKU      string `json:"sku"`
	Quantity int    `json:"quantity"`
}

// Bounds of a request.
const (
	maxBody  = 256 << 10
	maxName  = 128
	maxCents = 100_000_000_000_000
	maxLines = 10_000
)

// What clients send. amount_cents and value_cents are cents.
type (
	captureRequest struct {
		OrderID     string `json:"order_id"`
		CustomerID  string `json:"customer_id"`
		AmountCents int64  `json:"amount_cents"`
	}
	couponRequest struct {
		OrderID    string `json:"order_id"`
		CustomerID string `json:"customer_id"`
		ValueCents int64  `json:"value_cents"`
	}
	shipmentRequest struct {
		OrderID string `json:"order_id"`
		Lines   []Line `json:"lines"`
	}
	// orderRequest asks for a void, a revocation or a cancellation.
	orderRequest struct {
		OrderID string `json:"order_id"`
	}
)

// What servers answer; each names the order, so that a client sees that the
// answer is to its question.
type (
	captureAnswer struct {
		OrderID string `json:"order_id"`
		State   string `json:"state"`
	}
	voidAnswer struct {
		OrderID       string `json:"order_id"`
		ReturnedCents *int64 `json:"returned_cents"`
	}
	couponAnswer struct {
		OrderID string `json:"order_id"`
		Code    string `json:"code"`
	}
	revocationAnswer struct {
		OrderID string `json:"order_id"`
		Revoked *bool  `json:"revoked"`
	}
	shipmentAnswer struct {
		OrderID  string `json:"order_id"`
		Tracking string `json:"tracking"`
	}
	cancellationAnswer struct {
		OrderID string `json:"order_id"`
		Stopped *bool  `json:"stopped"`
	}
)

// stateCaptured is the state of a payment that was taken.
const stateCaptured = "captured"

// request is a body that a server takes.
type request interface {
	// ask returns what is asked for, or what is wrong with it.
	ask() (ask, string)
}

// ask is what is asked of a system for an order.
type ask struct {
	orderID, customerID string
	cents               int64
}

func (r *captureRequest) ask() (ask, string) {
	a := ask{orderID: r.OrderID, customerID: r.CustomerID, cents: r.AmountCents}
	return a, firstWrong(badName("order_id", r.OrderID), badName("customer_id", r.CustomerID), badCents("amount_cents", r.AmountCents))
}

func (r *couponRequest) ask() (ask, string) {
	a := ask{orderID: r.OrderID, customerID: r.CustomerID, cents: r.ValueCents}
	return a, firstWrong(badName("order_id", r.OrderID), badName("customer_id", r.CustomerID), badCents("value_cents", r.ValueCents))
}

func (r *shipmentRequest) ask() (ask, string) {
	why := badName("order_id", r.OrderID)
	if why == "" && (len(r.Lines) == 0 || len(r.Lines) > maxLines) {
		why = fmt.Sprintf("lines has %d entries; it must have 1 to %d", len(r.Lines), maxLines)
	}
	for i, l := range r.Lines {
		if why != "" {
			break
		}
		why = badName(fmt.Sprintf("lines[%d].sku", i), l.SKU)
		if why == "" && l.Quantity < 1 {
			why = fmt.Sprintf("lines[%d].quantity is %d; it must be 1 or more", i, l.Quantity)
		}
	}
	return ask{orderID: r.OrderID}, why
}

func (r *orderRequest) ask() (ask, string) {
	return ask{orderID: r.OrderID}, badName("order_id", r.OrderID)
}

func firstWrong(whys ...string) string {
	for _, w := range whys {
		if w != "" {
			return w
		}
	}
	return ""
}

func badName(field, s string) string {
	if s == "" || len(s) > maxName {
		return fmt.Sprintf("%s has %d bytes; it must have 1 to %d", field, len(s), maxName)
	}
	for i := range len(s) {
		if s[i] <= 0x20 || s[i] >= 0x7f {
			return field + " has a character that is not printable ASCII"
		}
	}
	return ""
}

func badCents(field string, n int64) string {
	if n < 1 || n > maxCents {
		return fmt.Sprintf("%s is %d; it must be 1 to %d", field, n, int64(maxCents))
	}
	return ""
}
