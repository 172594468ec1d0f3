package shop

import (
	"fmt"
	"slices"
	"time"
)

// Rules are the shop's business rules that a shop may set otherwise. The zero
// value works.
type Rules struct {
	// PaymentWindow is how long a customer may take to pay; then the order is
	// cancelled. Defaults to 15 min.
	PaymentWindow time.Duration
	// RefuseAbove is the amount above which an order is refused at once, Blocked
	// are customers whose orders are. Default to 10,000.00 and nobody.
	RefuseAbove Cents
	Blocked     []string
	// HoldAbove is the amount above which an order is held by risk until it was
	// reviewed. Defaults to 500.00.
	HoldAbove Cents
	// ReviewAfter is how long a held order waits for its review. Defaults to 1 min.
	ReviewAfter time.Duration
	// ReleaseUpTo is the amount up to which the review lets an order go on.
	// Defaults to 1,000.00.
	ReleaseUpTo Cents
	// CouponFrom is the amount from which a paid order earns a coupon beside its
	// points. Defaults to 20.00.
	CouponFrom Cents
}

func (r Rules) withDefaults() Rules {
	orTime(&r.PaymentWindow, 15*time.Minute)
	orTime(&r.ReviewAfter, time.Minute)
	orCents(&r.RefuseAbove, 10_000_00)
	orCents(&r.HoldAbove, 500_00)
	orCents(&r.ReleaseUpTo, 1_000_00)
	orCents(&r.CouponFrom, 20_00)
	return r
}

// refusal says why an order is refused before anything is stored, or "". It is
// risk's check on the synchronous path: it knows the request and nothing else.
func (r Rules) refusal(o OrderRequest) string {
	switch {
	case o.Amount > r.RefuseAbove:
		return fmt.Sprintf("an order of %v is above the limit of %v", o.Amount, r.RefuseAbove)
	case slices.Contains(r.Blocked, o.CustomerID):
		return "orders of this customer are not taken"
	}
	return ""
}

func orTime(v *time.Duration, d time.Duration) {
	if *v <= 0 {
		*v = d
	}
}

func orCents(v *Cents, d Cents) {
	if *v <= 0 {
		*v = d
	}
}
