package shop

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
}

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

// errMalformed is the error of a body that is no JSON object at all.
var errMalformed = errors.New("the body is not one JSON object")

// decodeOrder reads a request body. It returns errMalformed, another error of
// the reader, or what is wrong with the fields.
func decodeOrder(body io.Reader) (OrderRequest, []FieldError, error) {
	var fields map[string]json.RawMessage
	dec := json.NewDecoder(body)
	if err := dec.Decode(&fields); err != nil {
		return OrderRequest{}, nil, readError(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return OrderRequest{}, nil, readError(err)
	}
	var r OrderRequest
	var wrong []FieldError
	add := func(field, reason string) { wrong = append(wrong, FieldError{field, reason}) }
	for name := range fields {
		if name != "customerId" && name != "amount" && name != "items" {
			add("body", "has a field that is not known; the fields are customerId, amount, items")
			break
		}
	}
	if json.Unmarshal(fields["customerId"], &r.CustomerID) != nil {
		add("customerId", "is missing or not a string")
	} else if why := badName(r.CustomerID); why != "" {
		add("customerId", why)
	}
	if amount, why := decodeAmount(fields["amount"]); why != "" {
		add("amount", why)
	} else {
		r.Amount = amount
	}
	items, itemErrors := decodeItems(fields["items"])
	r.Items = items
	return r, append(wrong, itemErrors...), nil
}

// readError tells bytes that are no JSON from a body that can't be read.
func readError(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	if err == nil || errors.As(err, &syntax) || errors.As(err, &kind) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errMalformed
	}
	return err
}

// decodeAmount takes a JSON number or string by its digits.
func decodeAmount(raw json.RawMessage) (Cents, string) {
	if len(raw) == 0 || string(raw) == "null" {
		return 0, "is missing"
	}
	text := string(raw)
	if raw[0] == '"' && json.Unmarshal(raw, &text) != nil {
		return 0, "is not an amount like 11.77"
	}
	n, err := ParseCents(text)
	if err != nil {
		return 0, err.Error()
	}
	return n, ""
}

func decodeItems(raw json.RawMessage) ([]Item, []FieldError) {
	var lines []json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &lines) != nil {
		return nil, []FieldError{{"items", "is missing or not a list"}}
	}
	if len(lines) == 0 || len(lines) > MaxItems {
		return nil, []FieldError{{"items", fmt.Sprintf("has %d lines; it must have 1 to %d", len(lines), MaxItems)}}
	}
	var wrong []FieldError
	items := make([]Item, len(lines))
	seen := make(map[string]bool, len(lines))
	for i, line := range lines {
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		field := fmt.Sprintf("items[%d]", i)
		if dec.Decode(&items[i]) != nil {
			wrong = append(wrong, FieldError{field, "is not an object with sku and a whole quantity"})
			continue
		}
		wrong = append(wrong, checkItem(field, items[i], seen)...)
	}
	return items, wrong
}

func checkItem(field string, item Item, seen map[string]bool) []FieldError {
	var wrong []FieldError
	switch why := badName(item.SKU); {
	case why != "":
		wrong = append(wrong, FieldError{field + ".sku", why})
	case seen[item.SKU]:
		wrong = append(wrong, FieldError{field + ".sku", "is on another line already"})
	}
	seen[item.SKU] = true
	if item.Quantity < 1 || item.Quantity > MaxQuantity {
		wrong = append(wrong, FieldError{field + ".quantity", fmt.Sprintf("is %d; it must be 1 to %d", item.Quantity, MaxQuantity)})
	}
	return wrong
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
// same hash, however they are written.
func (r OrderRequest) hash() [32]byte {
	var b bytes.Buffer
	_, _ = fmt.Fprintf(&b, "%s\n%d\n", r.CustomerID, r.Amount)
	for _, it := range r.Items {
		_, _ = fmt.Fprintf(&b, "%s %d\n", it.SKU, it.Quantity)
	}
	return sha256.Sum256(b.Bytes())
}
