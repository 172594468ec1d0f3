// Package shop is the reference system: an order service and an inventory
// service, each with its own database, outbox and consumer group, that talk by
// events on one topic keyed by order id.
//
//	POST /orders ─▶ t_order + t_order_item + order.created        CREATED
//	               inventory reserves all lines or none
//	               inventory.reserved       ─▶ order.reserved     RESERVED
//	               inventory.reserve_failed ─▶ order.cancelled    CANCELLED
//
// An order whose stock is reserved counts as completed. An article that the
// inventory does not know is a fault of ours, not of the order: the event is
// retried, then becomes a dead letter, and Stock and a replay repair it.
//
// The package uses what any user of Settle has: the public packages.
//
// Read order_machine.go and reservation_machine.go for what may happen,
// order_committer.go for how requests become transactions, run.go for the
// processes.
package shop
