package outside

import "context"

// Coupons is the client of the coupon system. Its methods may be called from
// several goroutines.
type Coupons struct{ *client }

// NewCoupons makes a client; no connection is made yet.
func NewCoupons(cfg ClientConfig) *Coupons { return &Coupons{newClient(CouponSystem, cfg)} }

// Grant gives a customer a coupon of this value in cents for an order and
// returns its code.
func (c *Coupons) Grant(ctx context.Context, orderID, customerID string, cents int64) (code string, err error) {
	var a couponAnswer
	err = c.call(ctx, "/coupons", "coupon:"+orderID, couponRequest{orderID, customerID, cents}, &a, func() bool {
		return a.OrderID == orderID && a.Code != ""
	})
	if err != nil {
		return "", finally(err)
	}
	return a.Code, nil
}

// Revoke bars every later grant for the order and takes back its coupon, if
// there is one.
func (c *Coupons) Revoke(ctx context.Context, orderID string) error {
	var a revocationAnswer
	err := c.call(ctx, "/revocations", "revocation:"+orderID, orderRequest{orderID}, &a, func() bool {
		return a.OrderID == orderID && a.Revoked != nil
	})
	return finally(err)
}
