package sim

import "github.com/settlemq/settle/examples/shop/lifecycle"

// reached notes that a machine of the shop takes an interesting step.
func (p *shop) reached(s *service, t lifecycle.Transition) {
	for _, place := range shopPlaces {
		if place.machine == s.machine.Name && (place.from == "*" || place.from == t.From) && place.on == t.On && place.to == t.To {
			p.probes.hit(place.name)
		}
	}
}

var shopPlaces = []struct{ name, machine, from, on, to string }{
	{"late money refunded", "payment", lifecycle.PaymentCaptured, lifecycle.OrderCancelled, lifecycle.PaymentReturned},
	{"payment voided", "payment", "*", lifecycle.OrderCancelled, lifecycle.PaymentCancelled},
	{"payment declined", "payment", "*", lifecycle.OrderConfirmed, lifecycle.PaymentDeclined},
	{"paid on asking", "payment", lifecycle.PaymentDue, lifecycle.OrderPayRequested, lifecycle.PaymentCaptured},
	{"asked to pay before it may be paid", "payment", lifecycle.PaymentAsked, lifecycle.OrderConfirmed, lifecycle.PaymentCaptured},
	{"cancelled before anything else at payment", "payment", lifecycle.None, lifecycle.OrderCancelled, lifecycle.PaymentBarred},
	{"time-out ends a confirmed order", "order", lifecycle.Confirmed, lifecycle.OrderPaymentDue, lifecycle.Cancelled},
	{"time-out ends an order without stock", "order", lifecycle.Created, lifecycle.OrderPaymentDue, lifecycle.Cancelled},
	{"customer cancels a confirmed order", "order", lifecycle.Confirmed, lifecycle.CustomerCancels, lifecycle.Cancelled},
	{"customer cancels at once", "order", lifecycle.Created, lifecycle.CustomerCancels, lifecycle.Cancelled},
	{"too little stock", "order", "*", lifecycle.InventoryReserveFailed, lifecycle.Cancelled},
	{"refused by risk", "order", "*", lifecycle.RiskRejected, lifecycle.Cancelled},
	{"shipment failed", "order", lifecycle.Paid, lifecycle.FulfilmentFailed, lifecycle.Cancelled},
	{"held stock released", "inventory", lifecycle.ReservationReserved, lifecycle.OrderCancelled, lifecycle.ReservationReleased},
	{"sold stock released", "inventory", lifecycle.ReservationConfirmed, lifecycle.OrderCancelled, lifecycle.ReservationReleased},
	{"cancelled before it was reserved", "inventory", lifecycle.None, lifecycle.OrderCancelled, lifecycle.ReservationBarred},
	{"reserving barred", "inventory", lifecycle.ReservationBarred, lifecycle.OrderCreated, lifecycle.ReservationFailed},
	{"held by risk", "risk", "*", lifecycle.OrderCreated, lifecycle.AssessmentHeld},
	{"held, then released", "risk", lifecycle.AssessmentHeld, lifecycle.RiskReviewDue, lifecycle.AssessmentApproved},
	{"held, then refused", "risk", lifecycle.AssessmentHeld, lifecycle.RiskReviewDue, lifecycle.AssessmentRejected},
	{"cancelled while held", "risk", lifecycle.AssessmentHeld, lifecycle.OrderCancelled, lifecycle.AssessmentClosed},
	{"reward taken back", "marketing", lifecycle.RewardGranted, lifecycle.OrderCancelled, lifecycle.RewardRevoked},
	{"reward waived", "marketing", lifecycle.None, lifecycle.Compensation(lifecycle.OrderPaid), lifecycle.RewardWaived},
	{"cancelled before it was shipped", "fulfilment", lifecycle.None, lifecycle.OrderCancelled, lifecycle.ShipmentBarred},
}

// ExpectedOfShop are the places that a run of many seeds of the shop must have
// come to.
func ExpectedOfShop() []string {
	all := []string{
		"acknowledgement lost",
		"call of a store done late",
		"carrier away",
		"carrier bars a late call",
		"carrier hangs",
		"carrier loses its answer",
		"coupons away",
		"coupons hangs",
		"coupons loses its answer",
		"database crashed",
		"dead letter given up",
		"dead letter of the coupon system replayed",
		"dead letter replayed",
		"delayed event done",
		"duplicate delivered",
		"event behind a failed one",
		"event sent again",
		"given up: order.confirmed at payment",
		"given up: order.created at inventory",
		"given up: order.created at risk",
		"given up: order.paid at fulfilment",
		"given up: order.paid at marketing",
		"item rolled back alone",
		"lease taken over",
		"money found that nobody knew of",
		"nothing to pay",
		"order completed",
		"order placed before",
		"order's row was locked",
		"partition taken over",
		"process died",
		"provider away",
		"provider bars a late call",
		"provider hangs",
		"provider loses its answer",
		"relay dead letter replayed",
		"request lost",
		"request rolled back",
		"row parked",
		"transaction lost at its commit",
		"work of a former owner refused",
		"write of a former leader refused",
	}
	for _, place := range shopPlaces {
		all = append(all, place.name)
	}
	return all
}
