package outside

import (
	"context"
	"errors"
	"net/http"

	"github.com/settlemq/settle"
)

// Provider is the client of the payment provider. Its methods may be called
// from several goroutines.
type Provider struct{ *client }

// NewProvider makes a client; no connection is made yet.
func NewProvider(cfg ClientConfig) *Provider { return &Provider{newClient(ProviderSystem, cfg)} }

// Capture takes cents from a customer for an order. declined says why the
// provider refuses, also because the order was voided; it is empty when the
// money was taken.
func (p *Provider) Capture(ctx context.Context, orderID, customerID string, cents int64) (declined string, err error) {
	var a captureAnswer
	err = p.call(ctx, "/captures", "capture:"+orderID, captureRequest{orderID, customerID, cents}, &a, func() bool {
		return a.OrderID == orderID && a.State == stateCaptured
	})
	var no *refusedError
	if errors.As(err, &no) && (no.status == http.StatusPaymentRequired || no.status == http.StatusConflict) {
		if no.reason == "" {
			return "declined", nil
		}
		return no.reason, nil
	}
	return "", finally(err)
}

// Void bars every later capture for the order and gives back what was taken;
// returned is how much went back, in cents.
func (p *Provider) Void(ctx context.Context, orderID string) (returned int64, err error) {
	var a voidAnswer
	err = p.call(ctx, "/voids", "void:"+orderID, orderRequest{orderID}, &a, func() bool {
		return a.OrderID == orderID && a.ReturnedCents != nil && *a.ReturnedCents >= 0
	})
	if err != nil {
		return 0, finally(err)
	}
	return *a.ReturnedCents, nil
}

// finally marks a refusal as one that asking again can't change.
func finally(err error) error {
	var no *refusedError
	if errors.As(err, &no) {
		return settle.Permanent(err)
	}
	return err
}
