package shop

import _ "embed"

// Consumer groups of the shop.
const (
	GroupOrder     = "order"
	GroupInventory = "inventory"
)

var (
	//go:embed sql/order_facts.sql
	orderExport string
	//go:embed sql/inventory_facts.sql
	inventoryExport string
)

// Service is one service of the shop; its database is NAME.db in the shop's
// directory.
type Service struct {
	Name string
	// Group is its consumer group, Handles the event types that it handles.
	Group   string
	Handles []string
	// Facts are the queries that copy what it knows into a scratch database, as
	// drill.Facts.Copy takes them.
	Facts string
}

// Services returns the services of the shop.
func Services() []Service {
	return []Service{
		{Name: "order", Group: GroupOrder, Handles: []string{InventoryReserved, InventoryReserveFailed}, Facts: orderExport},
		{Name: "inventory", Group: GroupInventory, Handles: []string{OrderCreated, OrderCancelled}, Facts: inventoryExport},
	}
}
