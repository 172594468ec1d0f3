package lifecycle

import "strings"

// Events of the shop.
const (
	OrderCreated      = "order.created"
	OrderReserved     = "order.reserved"      // its stock is held; risk has not spoken yet
	OrderApproved     = "order.approved"      // risk has no objection; its stock is not held yet
	OrderConfirmed    = "order.confirmed"     // both: it may be paid
	OrderPayRequested = "order.pay_requested" // the customer who wanted to pay later asks to pay
	OrderPaid         = "order.paid"
	OrderCompleted    = "order.completed"
	OrderCancelled    = "order.cancelled"
	OrderPaymentDue   = "order.payment_due" // timer: it should be paid by now

	InventoryReserved      = "inventory.reserved"
	InventoryReserveFailed = "inventory.reserve_failed"
	InventorySold          = "inventory.sold"
	InventoryReleased      = "inventory.released"

	PaymentCreated   = "payment.created"
	PaymentSucceeded = "payment.succeeded"
	PaymentFailed    = "payment.failed"
	PaymentVoided    = "payment.voided"
	PaymentRefunded  = "payment.refunded"

	RiskApproved  = "risk.approved"
	RiskHeld      = "risk.held"
	RiskRejected  = "risk.rejected"
	RiskReviewDue = "risk.review_due" // timer: a held order is to be looked at

	FulfilmentShipped = "fulfilment.shipped"
	FulfilmentFailed  = "fulfilment.failed"

	MarketingGranted = "marketing.granted"
	MarketingRevoked = "marketing.revoked"
)

// What a customer asks for, beside the events that machines take.
const (
	CustomerPays    = "customer pays"
	CustomerCancels = "customer cancels"
)

// compensation is what begins the name of an input that undoes an event.
const compensation = "compensation of "

// Compensation is the input with which a person, or a rule, gives up on an
// event whose effect can't be had: the service undoes what may have happened
// of it and tells the others.
func Compensation(event string) string { return compensation + event }

// IsEvent reports whether an input is an event that travels, not a customer's
// wish or a compensation.
func IsEvent(input string) bool { return !strings.Contains(input, " ") }

// Timer aggregates: delayed events have no place in a sequence, so they belong
// to aggregates of their own.
const (
	OrderTimer = "order_timer"
	RiskTimer  = "risk_timer"
)
