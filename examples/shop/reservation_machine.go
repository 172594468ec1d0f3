package shop

// States of the reservation of a whole order. Its lines are INIT while nothing
// is held for them, then RESERVED, then CONFIRMED or RELEASED.
const (
	reservationNone     = ""         // nothing heard of the order
	reservationReserved = "RESERVED" // all lines are held
	reservationFailed   = "FAILED"   // no line is held: not enough stock, or cancelled first
	reservationReleased = "RELEASED" // was held, given back
	reservationBarred   = "BARRED"   // order.cancelled came before order.created
)

// What a reservation depends on beside its state.
const (
	inStock = "in stock" // enough of every line
	short   = "short"    // too little of at least one
)

// reservationMachine is the life of a reservation. It takes order.created and
// order.cancelled in any order and any number.
func reservationMachine() []transition {
	return []transition{
		{from: reservationNone, on: OrderCreated, when: inStock, to: reservationReserved, emits: InventoryReserved},
		{from: reservationNone, on: OrderCreated, when: short, to: reservationFailed, emits: InventoryReserveFailed},
		{from: reservationNone, on: OrderCancelled, to: reservationBarred},
		{from: reservationBarred, on: OrderCreated, to: reservationFailed, emits: InventoryReserveFailed},
		{from: reservationBarred, on: OrderCancelled, to: reservationBarred},
		{from: reservationReserved, on: OrderCreated, to: reservationReserved},
		{from: reservationReserved, on: OrderCancelled, to: reservationReleased, emits: InventoryReleased},
		{from: reservationFailed, on: OrderCreated, to: reservationFailed},
		{from: reservationFailed, on: OrderCancelled, to: reservationFailed},
		{from: reservationReleased, on: OrderCreated, to: reservationReleased},
		{from: reservationReleased, on: OrderCancelled, to: reservationReleased},
	}
}
