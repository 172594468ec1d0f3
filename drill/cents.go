package drill

import (
	"fmt"
	"strconv"
	"strings"
)

// Cents is an amount of money. It is written as text with two decimals: 123.45.
type Cents int64

// String returns the amount with two decimals.
func (c Cents) String() string {
	sign, n := "", uint64(c)
	if c < 0 {
		sign, n = "-", -n
	}
	return fmt.Sprintf("%s%d.%02d", sign, n/100, n%100)
}

// MarshalText returns the same.
func (c Cents) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (c *Cents) UnmarshalText(b []byte) error {
	whole, part, ok := strings.Cut(string(b), ".")
	n, err := strconv.ParseInt(whole+part, 10, 64)
	if err != nil || !ok || len(part) != 2 || Cents(n).String() != string(b) {
		return fmt.Errorf("%q is no amount like 123.45", b)
	}
	*c = Cents(n)
	return nil
}
