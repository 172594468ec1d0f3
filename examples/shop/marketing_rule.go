package shop

// A coupon is worth a couponShare-th of the amount, and at most couponMost.
const (
	couponShare       = 10
	couponMost  Cents = 20_00
)

// points are what a paid order earns: one for each whole unit of its amount.
func points(amount Cents) int64 { return int64(amount / 100) }

// coupon is the value of the coupon that a paid order earns; zero means none.
func (r Rules) coupon(amount Cents) Cents {
	if amount < r.CouponFrom {
		return 0
	}
	return min(amount/couponShare, couponMost)
}
