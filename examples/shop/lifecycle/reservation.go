package lifecycle

import "slices"

// States of the reservation of a whole order. Its lines are INIT while nothing
// is held for them, then RESERVED, then CONFIRMED (sold) or RELEASED.
const (
	ReservationReserved  = "RESERVED"  // all lines are held
	ReservationConfirmed = "CONFIRMED" // all lines are sold
	ReservationFailed    = "FAILED"    // no line is held: not enough stock, given up, or cancelled first
	ReservationReleased  = "RELEASED"  // was held or sold, given back
	ReservationBarred    = "BARRED"    // order.cancelled came before order.created
	ReservationPrepaid   = "PREPAID"   // order.paid came before order.created
)

// What a reservation depends on beside its state.
const (
	InStock = "in stock" // enough of every line
	Short   = "short"    // too little of at least one
)

// Reservation is the life of an order's stock at the inventory.
func Reservation() Machine {
	giveUp := Compensation(OrderCreated)
	inputs := []string{OrderCreated, OrderPaid, OrderCancelled, giveUp}
	rows := slices.Concat(
		[]Transition{
			{From: None, On: OrderCreated, When: InStock, To: ReservationReserved, Emits: InventoryReserved},
			{From: None, On: OrderCreated, When: Short, To: ReservationFailed, Emits: InventoryReserveFailed},
			{From: None, On: OrderPaid, To: ReservationPrepaid},
			{From: None, On: OrderCancelled, To: ReservationBarred},
			{From: None, On: giveUp, To: ReservationFailed, Emits: InventoryReserveFailed},

			{From: ReservationPrepaid, On: OrderCreated, When: InStock, To: ReservationConfirmed, Emits: InventorySold},
			{From: ReservationPrepaid, On: OrderCreated, When: Short, To: ReservationFailed, Emits: InventoryReserveFailed},
			{From: ReservationPrepaid, On: OrderPaid, To: ReservationPrepaid},
			{From: ReservationPrepaid, On: OrderCancelled, To: ReservationBarred},
			{From: ReservationPrepaid, On: giveUp, To: ReservationFailed, Emits: InventoryReserveFailed},

			{From: ReservationBarred, On: OrderCreated, To: ReservationFailed, Emits: InventoryReserveFailed},
			{From: ReservationBarred, On: giveUp, To: ReservationFailed, Emits: InventoryReserveFailed},
		},
		stays(ReservationBarred, OrderPaid, OrderCancelled),
		[]Transition{
			{From: ReservationReserved, On: OrderCreated, To: ReservationReserved},
			{From: ReservationReserved, On: OrderPaid, To: ReservationConfirmed, Emits: InventorySold},
			{From: ReservationReserved, On: OrderCancelled, To: ReservationReleased, Emits: InventoryReleased},
			{From: ReservationReserved, On: giveUp, To: ReservationReserved},

			{From: ReservationConfirmed, On: OrderCreated, To: ReservationConfirmed},
			{From: ReservationConfirmed, On: OrderPaid, To: ReservationConfirmed},
			{From: ReservationConfirmed, On: OrderCancelled, To: ReservationReleased, Emits: InventoryReleased},
			{From: ReservationConfirmed, On: giveUp, To: ReservationConfirmed},
		},
		stays(ReservationFailed, inputs...),
		stays(ReservationReleased, inputs...),
	)
	return Machine{Name: "inventory", Aggregate: "reservation", Rows: rows}
}
