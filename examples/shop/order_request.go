package shop

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"slices"
	"strings"
)

// Limits of one order.
const (
	MaxItems    = 100
	MaxQuantity = 10_000
	maxName     = 64
)

// Item is one line of an order.
type Item struct {
	SKU      string `json:"sku"`
	Quantity int    `json:"quantity"`
}

// OrderRequest is the body of POST /orders. Amount is the price of the whole
// order; articles have no price of their own.
type OrderRequest struct {
	CustomerID string `json:"customerId"`
	Amount     Cents  `json:"amount"`
	Items      []Item `json:"items"`
	// Pay is when the customer pays: PayNow as soon as the order may be paid,
	// PayLater when the customer says so by POST /orders/{id}/pay. Defaults to
	// PayNow.
	Pay string `json:"pay,omitempty"`
}

// pay is Pay with its default.
func (r OrderRequest) pay() string { return cmp.Or(r.Pay, PayNow) }

// OrderID returns the id of the order that a request with this Idempotency-Key
// makes. It depends on the key alone, so that a client that got no answer
// knows what to ask for.
func OrderID(requestKey string) string {
	sum := sha256.Sum256([]byte(requestKey))
	return "o-" + strings.ToLower(base32.HexEncoding.EncodeToString(sum[:10]))
}

// FieldError says what is wrong with one field of a request.
type FieldError struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

// badName says why s can't name a customer, an article or a request, or "".
func badName(s string) string {
	if s == "" {
		return "is empty"
	}
	if len(s) > maxName {
		return fmt.Sprintf("has %d bytes; the limit is %d", len(s), maxName)
	}
	for i := range len(s) {
		if s[i] <= 0x20 || s[i] >= 0x7f {
			return "has a character that is not printable ASCII"
		}
	}
	return ""
}

// hash identifies what is asked for: two bodies that mean the same have the
// same hash, however they are written and whatever the order of their lines.
func (r OrderRequest) hash() [32]byte {
	var b bytes.Buffer
	_, _ = fmt.Fprintf(&b, "%s\n%d\n%s\n", r.CustomerID, r.Amount, r.pay())
	lines := slices.SortedFunc(slices.Values(r.Items), func(a, b Item) int { return strings.Compare(a.SKU, b.SKU) })
	for _, it := range lines {
		_, _ = fmt.Fprintf(&b, "%s %d\n", it.SKU, it.Quantity)
	}
	return sha256.Sum256(b.Bytes())
}
