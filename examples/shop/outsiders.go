package shop

import "context"

// outsiders are the systems that belong to others. Their answers may be late,
// lost or wrong. Each call names its effect by the order's id, so that it has
// one effect however often it is made; one that was undone since is not said
// to be there. Errors are settle.Unavailable when the system is away (nothing
// was tried), settle.Permanent when asking again can't help, and any other
// when nobody knows whether the effect took place.
type outsiders struct {
	provider paymentProvider
	coupons  couponSystem
	carrier  carrier
}

// paymentProvider moves money.
type paymentProvider interface {
	// Capture takes amount from a customer for an order. declined says why the
	// provider refuses; it is empty when the money was taken and has not gone
	// back since.
	Capture(ctx context.Context, orderID, customerID string, amount Cents) (declined string, err error)
	// Void bars every later capture for the order and gives back what was
	// taken; returned says whether anything was, and says it again when asked
	// again.
	Void(ctx context.Context, orderID string) (returned bool, err error)
}

// couponSystem hands out coupons.
type couponSystem interface {
	// Grant gives a customer a coupon for an order and returns its code.
	Grant(ctx context.Context, orderID, customerID string, value Cents) (code string, err error)
	// Revoke bars every later grant for the order and takes back its coupon.
	Revoke(ctx context.Context, orderID string) error
}

// carrier ships parcels.
type carrier interface {
	// Ship orders a shipment and returns its tracking code.
	Ship(ctx context.Context, orderID string, lines []Item) (tracking string, err error)
	// Cancel bars every later shipment of the order and stops the one there is.
	Cancel(ctx context.Context, orderID string) error
}
