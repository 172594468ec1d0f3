package outside

import "context"

// Carrier is the client of the carrier. Its methods may be called from several
// goroutines.
type Carrier struct{ *client }

// NewCarrier makes a client; no connection is made yet.
func NewCarrier(cfg ClientConfig) *Carrier { return &Carrier{newClient(CarrierSystem, cfg)} }

// Ship orders a shipment and returns its tracking code.
func (c *Carrier) Ship(ctx context.Context, orderID string, lines []Line) (tracking string, err error) {
	var a shipmentAnswer
	err = c.call(ctx, "/shipments", "shipment:"+orderID, shipmentRequest{orderID, lines}, &a, func() bool {
		return a.OrderID == orderID && a.Tracking != ""
	})
	if err != nil {
		return "", finally(err)
	}
	return a.Tracking, nil
}

// Cancel bars every later shipment of the order and stops the one there is, if
// any.
func (c *Carrier) Cancel(ctx context.Context, orderID string) error {
	var a cancellationAnswer
	err := c.call(ctx, "/cancellations", "cancellation:"+orderID, orderRequest{orderID}, &a, func() bool {
		return a.OrderID == orderID && a.Stopped != nil
	})
	return finally(err)
}
