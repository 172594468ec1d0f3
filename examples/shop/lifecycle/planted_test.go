package lifecycle

import (
	"slices"
	"strings"
	"testing"
)

// planted are bugs in a table that the machine itself lives well with, and the
// shop does not. Each says what must be noticed, and in which setting.
func planted() []struct {
	name, machine, from, on, when string
	change                        func(t *Transition)
	noticed, in                   string
} {
	stays := func(t *Transition) { t.To, t.Emits = t.From, "" }
	to := func(state, emits string) func(*Transition) {
		return func(t *Transition) { t.To, t.Emits = state, emits }
	}
	return []struct {
		name, machine, from, on, when string
		change                        func(t *Transition)
		noticed, in                   string
	}{
		{"a cancelled order is paid", "order", Cancelled, PaymentSucceeded, "", to(Paid, OrderPaid), "left CANCELLED", "in any order"},
		{"a paid order is cancelled by its customer", "order", Paid, CustomerCancels, "", to(Cancelled, OrderCancelled), "shipped", "cancelled"},
		{"time ends a paid order", "order", Paid, OrderPaymentDue, "", to(Cancelled, OrderCancelled), "shipped", "all goes well"},
		{"a time-out tells nobody", "order", Created, OrderPaymentDue, "", to(Cancelled, ""), "kept", "held, then refused"},
		{"a paid order is told twice", "order", Paid, PaymentSucceeded, "", to(Paid, OrderPaid), "order.paid", "repeated"},
		{"a customer asks twice", "order", Confirmed, CustomerPays, Asked, to(Confirmed, OrderPayRequested), "order.pay_requested", "paid later, twice"},
		{"approval is forgotten", "order", Reserved, RiskApproved, "", stays, "nothing will happen", "released in time"},
		{"confirmed before it is approved", "order", Created, InventoryReserved, "", to(Confirmed, OrderConfirmed), "not approved", "all goes well"},
		{"a failed shipment is ignored", "order", Paid, FulfilmentFailed, "", stays, "nothing will happen", "given up"},
		{"held stock of a cancelled order is kept", "inventory", ReservationReserved, OrderCancelled, "", stays, "stock is kept", "cancelled"},
		{"sold stock of a cancelled order is kept", "inventory", ReservationConfirmed, OrderCancelled, "", stays, "stock is kept", "given up"},
		{"stock for an order cancelled before", "inventory", ReservationBarred, OrderCreated, "", to(ReservationReserved, InventoryReserved), "stock is kept", "in any order"},
		{"paid stock is not sold", "inventory", ReservationReserved, OrderPaid, "", stays, "not sold", "all goes well"},
		{"stock is sold twice", "inventory", ReservationConfirmed, OrderPaid, "", to(ReservationConfirmed, InventorySold), "inventory.sold", "repeated"},
		{"late money is kept", "payment", PaymentCaptured, OrderCancelled, "", stays, "money is kept", "cancelled"},
		{"money is told twice", "payment", PaymentCaptured, OrderConfirmed, "", to(PaymentCaptured, PaymentSucceeded), "payment.succeeded", "repeated"},
		{"money returned is told as kept", "payment", PaymentOpen, OrderCancelled, MoneyReturned, to(PaymentCaptured, PaymentSucceeded), "money is kept", "in any order, cancelled"},
		{"a refund of nothing", "payment", PaymentOpen, OrderCancelled, NothingTaken, to(PaymentReturned, PaymentRefunded), "no money went back", "too little stock"},
		{"a refusal is not told", "payment", PaymentOpen, OrderConfirmed, Declined, to(PaymentDeclined, ""), "nothing will happen", "no money, in time"},
		{"a review changes nothing", "risk", AssessmentHeld, RiskReviewDue, Release, stays, "nothing will happen", "released in time"},
		{"a cancelled order stays held", "risk", AssessmentHeld, OrderCancelled, "", to(AssessmentHeld, RiskHeld), "risk.held", "held, then refused"},
		{"a shipment that was given up is not told", "fulfilment", None, Compensation(OrderPaid), "", to(ShipmentFailed, ""), "nothing will happen", "given up"},
		{"shipped again after it was given up", "fulfilment", ShipmentFailed, OrderCancelled, "", to(ShipmentShipped, FulfilmentShipped), "fulfilment.shipped", "given up"},
		{"a reward is kept", "marketing", RewardGranted, OrderCancelled, "", stays, "has a reward", "given up"},
		{"a reward is granted twice", "marketing", RewardGranted, OrderPaid, "", to(RewardGranted, MarketingGranted), "marketing.granted", "repeated"},
		{"a reward after cancelling", "marketing", RewardBarred, OrderPaid, "", to(RewardGranted, MarketingGranted), "has a reward", "given up in any order"},
	}
}

func TestEachPlantedTableIsNoticedByTheWholeShop(t *testing.T) {
	for _, bug := range planted() {
		t.Run(bug.name, func(t *testing.T) {
			machines := Machines()
			i := slices.IndexFunc(machines, func(m Machine) bool { return m.Name == bug.machine })
			rows := machines[i].Rows
			row := slices.IndexFunc(rows, func(t Transition) bool { return t.From == bug.from && t.On == bug.on && t.When == bug.when })
			if row < 0 {
				t.Fatal("the table has no such row")
			}
			bug.change(&rows[row])
			c := compose(machines...)
			f := c.explore(c.begin(settings()[bug.in]), map[moment]bool{})
			if f == nil || !strings.Contains(f.why.Error(), bug.noticed) {
				t.Errorf("%q is not noticed, but %v", bug.noticed, f)
			}
		})
	}
}
