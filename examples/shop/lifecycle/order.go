package lifecycle

import "slices"

// States of an order. Completed and Cancelled are final.
const (
	Created   = "CREATED"
	Reserved  = "RESERVED"  // stock is held
	Approved  = "APPROVED"  // risk has no objection
	Confirmed = "CONFIRMED" // both
	Paid      = "PAID"
	Completed = "COMPLETED" // shipped
	Cancelled = "CANCELLED"
)

// What an order depends on beside its state: whether its customer has asked to
// pay already.
const (
	NotAsked = "not asked to pay"
	Asked    = "asked to pay"
)

// Order is the life of an order. Whatever decided it first stands. A payment
// or a shipment proves all that must have come before it. What is paid can't
// be cancelled by its customer or by time; only a shipment that can't be made
// ends it, and the money goes back.
func Order() Machine {
	rows := slices.Concat(
		[]Transition{
			{From: Created, On: InventoryReserved, To: Reserved, Emits: OrderReserved},
			{From: Created, On: InventoryReserveFailed, To: Cancelled, Emits: OrderCancelled},
			{From: Created, On: RiskApproved, To: Approved, Emits: OrderApproved},
			{From: Created, On: RiskRejected, To: Cancelled, Emits: OrderCancelled},
		},
		unpaid(Created),
		stays(Reserved, InventoryReserved, InventoryReserveFailed),
		[]Transition{
			{From: Reserved, On: RiskApproved, To: Confirmed, Emits: OrderConfirmed},
			{From: Reserved, On: RiskRejected, To: Cancelled, Emits: OrderCancelled},
		},
		unpaid(Reserved),
		[]Transition{
			{From: Approved, On: InventoryReserved, To: Confirmed, Emits: OrderConfirmed},
			{From: Approved, On: InventoryReserveFailed, To: Cancelled, Emits: OrderCancelled},
		},
		stays(Approved, RiskApproved, RiskRejected),
		unpaid(Approved),
		stays(Confirmed, InventoryReserved, InventoryReserveFailed, RiskApproved, RiskRejected),
		unpaid(Confirmed),
		[]Transition{
			{From: Paid, On: FulfilmentShipped, To: Completed, Emits: OrderCompleted},
			{From: Paid, On: FulfilmentFailed, To: Cancelled, Emits: OrderCancelled},
		},
		stays(Paid, InventoryReserved, InventoryReserveFailed, RiskApproved, RiskRejected, CustomerPays, CustomerCancels,
			OrderPaymentDue, PaymentSucceeded, PaymentFailed),
		stays(Completed, decisions()...),
		stays(Cancelled, decisions()...),
	)
	return Machine{Name: "order", Aggregate: "order", Initial: Created, Rows: rows}
}

// unpaid are the rows that all states before Paid share.
func unpaid(state string) []Transition {
	return []Transition{
		{From: state, On: CustomerPays, When: NotAsked, To: state, Emits: OrderPayRequested},
		{From: state, On: CustomerPays, When: Asked, To: state},
		{From: state, On: CustomerCancels, To: Cancelled, Emits: OrderCancelled},
		{From: state, On: OrderPaymentDue, To: Cancelled, Emits: OrderCancelled},
		{From: state, On: PaymentSucceeded, To: Paid, Emits: OrderPaid},
		{From: state, On: PaymentFailed, To: Cancelled, Emits: OrderCancelled},
		{From: state, On: FulfilmentShipped, To: Completed, Emits: OrderCompleted},
		{From: state, On: FulfilmentFailed, To: Cancelled, Emits: OrderCancelled},
	}
}

// decisions are all inputs of an order.
func decisions() []string {
	return []string{
		InventoryReserved, InventoryReserveFailed, RiskApproved, RiskRejected, CustomerPays, CustomerCancels,
		OrderPaymentDue, PaymentSucceeded, PaymentFailed, FulfilmentShipped, FulfilmentFailed,
	}
}

// Final reports whether an order in this state goes nowhere any more.
func Final(state string) bool { return state == Completed || state == Cancelled }
