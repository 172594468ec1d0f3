package shop

import (
	"fmt"

	"github.com/settlemq/settle/examples/shop/lifecycle"
)

// assess says how risky an order of this amount is, and why.
func (r Rules) assess(amount Cents) (when, reason string) {
	if amount > r.HoldAbove {
		return lifecycle.HighRisk, fmt.Sprintf("the amount %v is above %v: held for review", amount, r.HoldAbove)
	}
	return lifecycle.LowRisk, fmt.Sprintf("the amount %v is not above %v", amount, r.HoldAbove)
}

// review says what becomes of a held order, and why.
func (r Rules) review(amount Cents) (when, reason string) {
	if amount > r.ReleaseUpTo {
		return lifecycle.Refuse, fmt.Sprintf("the reviewed amount %v is above %v", amount, r.ReleaseUpTo)
	}
	return lifecycle.Release, fmt.Sprintf("the reviewed amount %v is not above %v", amount, r.ReleaseUpTo)
}
