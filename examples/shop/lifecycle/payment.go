package lifecycle

import "slices"

// States of a payment.
const (
	PaymentOpen      = "OPEN"     // the order may not be paid yet
	PaymentAsked     = "ASKED"    // the same, and the customer's wish to pay came before order.confirmed
	PaymentDue       = "DUE"      // the order may be paid, its customer has not asked to
	PaymentCaptured  = "CAPTURED" // the money is here
	PaymentDeclined  = "DECLINED" // the provider said no
	PaymentCancelled = "VOIDED"   // nothing was taken and nothing will be
	PaymentReturned  = "REFUNDED" // was taken, given back
	PaymentBarred    = "BARRED"   // order.cancelled came first
)

// What a payment depends on beside its state.
const (
	PaysLater     = "pays later"     // the customer will say when
	Taken         = "taken"          // the provider has taken the money, or there is none to take
	Declined      = "declined"       // the provider has refused
	NothingTaken  = "nothing taken"  // the provider had taken nothing, and takes nothing any more
	MoneyReturned = "money returned" // the provider had taken the money and has given it back
)

// Payment is the life of an order's payment. Money is asked for only when the
// order may be paid and its customer wants to, and goes back when the order is
// cancelled after all. An order of amount zero is paid without the provider:
// there is nothing to take.
//
// Every event of an order carries the whole order, so an early one need not
// wait for order.created. A cancelled order asks the provider also when
// nothing is known to be taken: an answer may have been lost.
func Payment() Machine {
	var rows []Transition
	waiting := func(state string, created string) {
		undoConfirm, undoPay := Compensation(OrderConfirmed), Compensation(OrderPayRequested)
		rows = append(rows,
			Transition{From: state, On: OrderConfirmed, When: Taken, To: PaymentCaptured, Emits: PaymentSucceeded},
			Transition{From: state, On: OrderConfirmed, When: Declined, To: PaymentDeclined, Emits: PaymentFailed},
		)
		if state != PaymentAsked {
			rows = append(rows, Transition{From: state, On: OrderConfirmed, When: PaysLater, To: PaymentDue, Emits: created})
		}
		rows = append(rows,
			Transition{From: state, On: OrderPayRequested, To: PaymentAsked, Emits: created},
			Transition{From: state, On: undoConfirm, To: PaymentCancelled, Emits: PaymentFailed},
			Transition{From: state, On: undoPay, To: PaymentCancelled, Emits: PaymentFailed},
		)
	}
	cancelled := func(state string) {
		rows = append(rows,
			Transition{From: state, On: OrderCancelled, When: NothingTaken, To: PaymentCancelled, Emits: PaymentVoided},
			Transition{From: state, On: OrderCancelled, When: MoneyReturned, To: PaymentReturned, Emits: PaymentRefunded},
		)
	}
	rows = append(rows,
		Transition{From: None, On: OrderCreated, To: PaymentOpen, Emits: PaymentCreated},
		Transition{From: None, On: OrderCancelled, When: NothingTaken, To: PaymentBarred},
		Transition{From: None, On: OrderCancelled, When: MoneyReturned, To: PaymentReturned, Emits: PaymentRefunded},
	)
	waiting(None, PaymentCreated)
	rows = append(rows, stays(PaymentOpen, OrderCreated)...)
	waiting(PaymentOpen, "")
	cancelled(PaymentOpen)
	rows = append(rows, stays(PaymentAsked, OrderCreated)...)
	waiting(PaymentAsked, "")
	cancelled(PaymentAsked)
	rows = append(rows, stays(PaymentDue, OrderCreated, OrderConfirmed)...)
	rows = append(rows,
		Transition{From: PaymentDue, On: OrderPayRequested, When: Taken, To: PaymentCaptured, Emits: PaymentSucceeded},
		Transition{From: PaymentDue, On: OrderPayRequested, When: Declined, To: PaymentDeclined, Emits: PaymentFailed},
		Transition{From: PaymentDue, On: Compensation(OrderConfirmed), To: PaymentCancelled, Emits: PaymentFailed},
		Transition{From: PaymentDue, On: Compensation(OrderPayRequested), To: PaymentCancelled, Emits: PaymentFailed},
	)
	cancelled(PaymentDue)
	rows = append(rows, Transition{From: PaymentCaptured, On: OrderCancelled, To: PaymentReturned, Emits: PaymentRefunded})
	inputs := []string{OrderCreated, OrderConfirmed, OrderPayRequested, Compensation(OrderConfirmed), Compensation(OrderPayRequested)}
	rows = append(rows, stays(PaymentCaptured, inputs...)...)
	for _, final := range []string{PaymentDeclined, PaymentCancelled, PaymentReturned, PaymentBarred} {
		rows = slices.Concat(rows, stays(final, inputs...), stays(final, OrderCancelled))
	}
	return Machine{Name: "payment", Aggregate: "payment", Rows: rows}
}
