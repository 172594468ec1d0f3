package drill

import "time"

// Request is one order that a client wants; Key is the same however often it
// has to ask.
type Request struct {
	Key        string
	CustomerID string
	Amount     int64 // cents
	Items      []Line
	// Body is what is sent.
	Body []byte
	// Refused: the entry must refuse it for good and keep nothing of it.
	Refused bool
	// Acts are what its customer does once it was accepted.
	Acts []Act
}

// Line is one article of a request.
type Line struct {
	SKU      string
	Quantity int
}

// Kinds of acts.
const (
	ActPay    = "pay"
	ActCancel = "cancel"
)

// Act is something that a customer does about an order of theirs, so long
// after it was accepted. Acts of one order with the same After are a race: they
// are sent at the same time.
type Act struct {
	Kind  string
	After time.Duration
}

// Answer is what a client was told: this order exists.
type Answer struct{ Key, OrderID string }

// ActAnswer is what a customer was told about an act.
type ActAnswer struct {
	Key, Kind string
	Accepted  bool
}
