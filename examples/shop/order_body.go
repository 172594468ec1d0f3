package shop

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// errMalformed is the error of a body that is not one JSON object, or whose
// meaning depends on who reads it.
var errMalformed = errors.New("the body is not one JSON object")

// decodeOrder reads a request body. It returns errMalformed, another error of
// the reader, or what is wrong with the fields.
func decodeOrder(body io.Reader) (OrderRequest, []FieldError, error) {
	text, err := io.ReadAll(body)
	if err != nil {
		return OrderRequest{}, nil, err
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil {
		return OrderRequest{}, nil, errMalformed
	}
	if name, ok := repeatedName(json.NewDecoder(bytes.NewReader(text))); ok {
		return OrderRequest{}, nil, fmt.Errorf("%w: the name %.40q is in it twice", errMalformed, name)
	}
	r, wrong := decodeFields(fields)
	return r, wrong, nil
}

// repeatedName finds a name that an object of the next value has twice. Some
// readers take the first such field, some the last; we refuse to guess. The
// value is known to be valid JSON.
func repeatedName(dec *json.Decoder) (string, bool) {
	open, err := dec.Token()
	if err != nil || (open != json.Delim('{') && open != json.Delim('[')) {
		return "", false
	}
	seen := map[string]bool{}
	for dec.More() {
		if open == json.Delim('{') {
			token, _ := dec.Token()
			name, _ := token.(string)
			if seen[name] {
				return name, true
			}
			seen[name] = true
		}
		if name, ok := repeatedName(dec); ok {
			return name, true
		}
	}
	_, _ = dec.Token()
	return "", false
}

func decodeFields(fields map[string]json.RawMessage) (OrderRequest, []FieldError) {
	r := OrderRequest{Pay: PayNow}
	var wrong []FieldError
	add := func(field, reason string) { wrong = append(wrong, FieldError{field, reason}) }
	if !only(fields, "customerId", "amount", "items", "pay") {
		add("body", "has a field that is not known; the fields are customerId, amount, items, pay")
	}
	if json.Unmarshal(fields["customerId"], &r.CustomerID) != nil {
		add("customerId", "is missing or not a string")
	} else if why := badName(r.CustomerID); why != "" {
		add("customerId", why)
	}
	amount, why := decodeAmount(fields["amount"])
	if why != "" {
		add("amount", why)
	}
	r.Amount = amount
	if raw, ok := fields["pay"]; ok && (json.Unmarshal(raw, &r.Pay) != nil || (r.Pay != PayNow && r.Pay != PayLater) || string(raw) == "null") {
		add("pay", `is neither "now" nor "later"`)
	}
	items, itemErrors := decodeItems(fields["items"])
	r.Items = items
	return r, append(wrong, itemErrors...)
}

// only reports whether all fields have one of the names, to the letter.
func only(fields map[string]json.RawMessage, names ...string) bool {
	for name := range fields {
		if !slices.Contains(names, name) {
			return false
		}
	}
	return true
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
		field := fmt.Sprintf("items[%d]", i)
		var ok bool
		if items[i], ok = decodeItem(line); !ok {
			wrong = append(wrong, FieldError{field, "is not an object with sku and a whole quantity"})
			continue
		}
		wrong = append(wrong, checkItem(field, items[i], seen)...)
	}
	return items, wrong
}

// decodeItem takes names to the letter, which a struct does not.
func decodeItem(line json.RawMessage) (Item, bool) {
	var fields map[string]json.RawMessage
	var it Item
	if json.Unmarshal(line, &fields) != nil || !only(fields, "sku", "quantity") {
		return it, false
	}
	sku, hasSKU := fields["sku"]
	quantity, hasQuantity := fields["quantity"]
	if (hasSKU && json.Unmarshal(sku, &it.SKU) != nil) || (hasQuantity && json.Unmarshal(quantity, &it.Quantity) != nil) {
		return it, false
	}
	return it, true
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
