package shop

import (
	"context"

	"github.com/settlemq/settle/examples/shop/outside"
)

// callOutside makes the clients of the outside systems; no connection is made
// before the first call. done closes what they have open.
func callOutside(cfg Config) (systems outsiders, done func()) {
	client := func(system string) outside.ClientConfig {
		c := outside.ClientConfig{Timeout: cfg.Outside.Timeout, Failures: cfg.Outside.BreakerFailures, Wait: cfg.Outside.BreakerWait, Logger: cfg.Logger}
		c.Address = func() (string, error) {
			if addr := cfg.Outside.Addresses[system]; addr != "" {
				return addr, nil
			}
			return outside.Address(cfg.Dir, system)
		}
		return c
	}
	p := outside.NewProvider(client(outside.ProviderSystem))
	c := outside.NewCoupons(client(outside.CouponSystem))
	s := outside.NewCarrier(client(outside.CarrierSystem))
	done = func() {
		p.Close()
		c.Close()
		s.Close()
	}
	return outsiders{provider: providerClient{p}, coupons: couponClient{c}, carrier: carrierClient{s}}, done
}

// The clients in the shop's own terms.
type (
	providerClient struct{ provider *outside.Provider }
	couponClient   struct{ coupons *outside.Coupons }
	carrierClient  struct{ carrier *outside.Carrier }
)

func (p providerClient) Capture(ctx context.Context, orderID, customerID string, amount Cents) (string, error) {
	return p.provider.Capture(ctx, orderID, customerID, int64(amount))
}

func (p providerClient) Void(ctx context.Context, orderID string) (bool, error) {
	returned, err := p.provider.Void(ctx, orderID)
	return returned > 0, err
}

func (c couponClient) Grant(ctx context.Context, orderID, customerID string, value Cents) (string, error) {
	return c.coupons.Grant(ctx, orderID, customerID, int64(value))
}

func (c couponClient) Revoke(ctx context.Context, orderID string) error {
	return c.coupons.Revoke(ctx, orderID)
}

func (c carrierClient) Ship(ctx context.Context, orderID string, lines []Item) (string, error) {
	parcels := make([]outside.Line, len(lines))
	for i, l := range lines {
		parcels[i] = outside.Line{SKU: l.SKU, Quantity: l.Quantity}
	}
	return c.carrier.Ship(ctx, orderID, parcels)
}

func (c carrierClient) Cancel(ctx context.Context, orderID string) error {
	return c.carrier.Cancel(ctx, orderID)
}
