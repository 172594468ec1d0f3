package lifecycle

import "slices"

// States of a shipment.
const (
	ShipmentShipped = "SHIPPED"
	ShipmentFailed  = "FAILED" // given up: the carrier ships nothing for this order
	ShipmentBarred  = "BARRED" // order.cancelled came first
)

// Shipment is the life of an order's shipment. What is shipped stays shipped.
func Shipment() Machine {
	giveUp := Compensation(OrderPaid)
	inputs := []string{OrderPaid, OrderCancelled, giveUp}
	rows := slices.Concat(
		[]Transition{
			{From: None, On: OrderPaid, To: ShipmentShipped, Emits: FulfilmentShipped},
			{From: None, On: OrderCancelled, To: ShipmentBarred},
			{From: None, On: giveUp, To: ShipmentFailed, Emits: FulfilmentFailed},
		},
		stays(ShipmentShipped, inputs...),
		stays(ShipmentFailed, inputs...),
		stays(ShipmentBarred, inputs...),
	)
	return Machine{Name: "fulfilment", Aggregate: "shipment", Rows: rows}
}
