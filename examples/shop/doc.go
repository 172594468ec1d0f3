// Package shop is the reference system: six services, each with its own
// database, outbox and consumer group, that talk by events alone, on one topic
// keyed by order id.
//
//	order       takes orders over HTTP and keeps the life of each
//	inventory   holds the stock of an order, sells it, takes it back
//	payment     takes the money from the payment provider and gives it back
//	risk        approves an order, or holds it until it was reviewed
//	fulfilment  has a paid order shipped by the carrier
//	marketing   rewards a paid order with points and a coupon
//
// An order that goes well:
//
//	POST /orders ─▶ t_order + order.created + a timer        CREATED
//	inventory.reserved  ┐ in either order
//	risk.approved       ┴─▶ order.confirmed                  CONFIRMED
//	payment.succeeded   ──▶ order.paid                       PAID
//	fulfilment.shipped  ──▶ order.completed                  COMPLETED
//
// Too little stock, risk, a declined payment, its customer, the timer of its
// payment or a parcel that can't be shipped end it in order.cancelled, upon
// which each service undoes its part. Whatever came first stands; early, late
// and repeated events are all provided for. An article that the inventory does
// not know is a fault of ours, not of the order: the event is retried, then
// becomes a dead letter, and Stock and a replay repair it.
//
// Payment provider, coupon system and carrier belong to others; package outside
// plays them. The package uses what any user of Settle has: the public
// packages.
//
// Read lifecycle for what may happen, order_change.go for how the order's table
// is driven and aggregate.go for the others', order_committer.go for how
// requests become transactions, order_standing.go for why an order has not
// settled, run.go for the processes.
package shop
