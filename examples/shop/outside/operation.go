package outside

import (
	"crypto/sha256"
	"encoding/base32"
	"hash/fnv"
	"net/http"
	"strings"
)

// Kinds of ledger rows.
const (
	KindCapture      = "capture" // money was taken
	KindDecline      = "decline" // the provider refused to take it
	KindVoid         = "void"    // nothing is taken for the order any more
	KindRefund       = "refund"  // money went back
	KindCoupon       = "coupon"
	KindRevocation   = "revocation" // the order's coupon counts no more, nor any later one
	KindShipment     = "shipment"
	KindCancellation = "cancellation" // the order's shipment is stopped, and any later one
)

// account is what a ledger knows of an order.
type account struct {
	customerID         string
	captured, refunded int64
	done               bool // a coupon was given, a parcel shipped
	barred             bool
}

// add takes one row of the order into account.
func (a *account) add(kind, customerID string, cents int64) {
	if a.customerID == "" {
		a.customerID = customerID
	}
	switch kind {
	case KindCapture:
		a.captured += cents
	case KindRefund:
		a.refunded += cents
	case KindCoupon, KindShipment:
		a.done = true
	case KindVoid, KindRevocation, KindCancellation:
		a.barred = true
	}
}

// outcome is what a system decides: its answer, and what it writes down. No
// effects: it writes nothing, and the same question gets the same answer.
type outcome struct {
	status  int
	body    any
	effects []effect
}

type effect struct {
	kind  string
	cents int64
}

// operation is one thing that a system can be asked for. decide is pure.
type operation struct {
	path   string
	body   func() request
	decide func(account, ask) outcome
}

// operations returns what a system can be asked for. declinePercent is the
// share of customers whose payments the provider declines.
func operations(system string, declinePercent int) []operation {
	forOrder := func() request { return new(orderRequest) }
	switch system {
	case ProviderSystem:
		capture := func(a account, q ask) outcome { return decideCapture(a, q, declinePercent) }
		return []operation{
			{"/captures", func() request { return new(captureRequest) }, capture},
			{"/voids", forOrder, decideVoid},
		}
	case CouponSystem:
		return []operation{
			{"/coupons", func() request { return new(couponRequest) }, decideCoupon},
			{"/revocations", forOrder, decideRevocation},
		}
	}
	return []operation{
		{"/shipments", func() request { return new(shipmentRequest) }, decideShipment},
		{"/cancellations", forOrder, decideCancellation},
	}
}

func decideCapture(a account, q ask, declinePercent int) outcome {
	if a.barred {
		return barred("the order's payment was voided")
	}
	if why := declined(q.customerID, declinePercent); why != "" {
		p := refuse(http.StatusPaymentRequired, "the payment is declined")
		p.Reason = why
		return outcome{p.Status, p, []effect{{KindDecline, q.cents}}}
	}
	return outcome{http.StatusCreated, captureAnswer{q.orderID, stateCaptured}, []effect{{KindCapture, q.cents}}}
}

// declinedPrefix begins the ids of customers whose payments are declined.
const declinedPrefix = "declined"

// declined says why a customer's payments are declined, or "". It says the same
// of a customer for ever.
func declined(customerID string, percent int) string {
	if strings.HasPrefix(customerID, declinedPrefix) {
		return "the card was declined"
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(customerID))
	if h.Sum32()%100 < uint32(max(percent, 0)) {
		return "not enough money"
	}
	return ""
}

// decideVoid gives back what was taken and has not gone back yet.
func decideVoid(a account, q ask) outcome {
	back := a.captured - a.refunded
	o := outcome{http.StatusOK, voidAnswer{q.orderID, &back}, []effect{{KindVoid, 0}}}
	if back > 0 {
		o.effects = append(o.effects, effect{KindRefund, back})
	}
	return o
}

func decideCoupon(a account, q ask) outcome {
	if a.barred {
		return barred("the order's coupon was revoked")
	}
	return outcome{http.StatusCreated, couponAnswer{q.orderID, "C-" + codeOf(q.orderID)}, []effect{{KindCoupon, q.cents}}}
}

func decideRevocation(a account, q ask) outcome {
	return outcome{http.StatusOK, revocationAnswer{q.orderID, &a.done}, []effect{{KindRevocation, 0}}}
}

func decideShipment(a account, q ask) outcome {
	if a.barred {
		return barred("the order's shipment was cancelled")
	}
	return outcome{http.StatusCreated, shipmentAnswer{q.orderID, "T-" + codeOf(q.orderID)}, []effect{{KindShipment, 0}}}
}

func decideCancellation(a account, q ask) outcome {
	return outcome{http.StatusOK, cancellationAnswer{q.orderID, &a.done}, []effect{{KindCancellation, 0}}}
}

// barred refuses for good: what bars an order is never taken back.
func barred(why string) outcome {
	p := refuse(http.StatusConflict, why)
	p.Reason = why
	return outcome{status: p.Status, body: p}
}

// codeOf makes a code that a person can read out.
func codeOf(orderID string) string {
	sum := sha256.Sum256([]byte(orderID))
	return base32.StdEncoding.EncodeToString(sum[:5])
}
