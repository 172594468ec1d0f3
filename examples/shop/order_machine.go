package shop

// States of an order. An order whose stock is reserved counts as completed.
const (
	StatusCreated   = "CREATED"
	StatusReserved  = "RESERVED"
	StatusCancelled = "CANCELLED"
)

// Events of the shop.
const (
	OrderCreated           = "order.created"
	OrderReserved          = "order.reserved"
	OrderCancelled         = "order.cancelled"
	InventoryReserved      = "inventory.reserved"
	InventoryReserveFailed = "inventory.reserve_failed"
	InventoryReleased      = "inventory.released"
)

// orderMachine is the life of an order. Whatever decided it first stands; an
// answer that comes again, or after the decision, changes nothing. Stock held
// for a cancelled order is released by the order.cancelled that inventory gets.
func orderMachine() []transition {
	return []transition{
		{from: StatusCreated, on: InventoryReserved, to: StatusReserved, emits: OrderReserved},
		{from: StatusCreated, on: InventoryReserveFailed, to: StatusCancelled, emits: OrderCancelled},
		{from: StatusReserved, on: InventoryReserved, to: StatusReserved},
		{from: StatusReserved, on: InventoryReserveFailed, to: StatusReserved},
		{from: StatusCancelled, on: InventoryReserved, to: StatusCancelled},
		{from: StatusCancelled, on: InventoryReserveFailed, to: StatusCancelled},
	}
}
