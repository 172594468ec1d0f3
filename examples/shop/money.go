package shop

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Cents is an amount of money. It never passes through a float: text becomes
// cents digit by digit.
type Cents int64

// MaxAmount is the largest amount of one order.
const MaxAmount Cents = 1_000_000_000_00

// ParseCents reads an amount such as 0, 11.7 or 11.77. It refuses a sign, a
// third decimal, an exponent and anything above MaxAmount.
func ParseCents(s string) (Cents, error) {
	whole, decimals, dot := strings.Cut(s, ".")
	switch {
	case strings.HasPrefix(s, "-"):
		return 0, errors.New("is negative")
	case whole == "" || !digits(whole) || !digits(decimals) || (dot && decimals == ""):
		return 0, errors.New("is not an amount like 11.77")
	case len(decimals) > 2:
		return 0, errors.New("has more than two decimals")
	}
	whole = strings.TrimLeft(whole, "0")
	if len(whole) > 12 {
		return 0, fmt.Errorf("is above the limit of %v", MaxAmount)
	}
	var n Cents
	for _, d := range whole + (decimals + "00")[:2] {
		n = n*10 + Cents(d-'0')
	}
	if n > MaxAmount {
		return 0, fmt.Errorf("is above the limit of %v", MaxAmount)
	}
	return n, nil
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// String returns the amount with two decimals.
func (c Cents) String() string { return fmt.Sprintf("%d.%02d", c/100, c%100) }

// MarshalJSON writes a string, because JSON numbers become floats elsewhere.
func (c Cents) MarshalJSON() ([]byte, error) { return []byte(`"` + c.String() + `"`), nil }

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Cents) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return errors.New("amount is not a string")
	}
	n, err := ParseCents(s)
	if err != nil {
		return fmt.Errorf("amount %w", err)
	}
	*c = n
	return nil
}
