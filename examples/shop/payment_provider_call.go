package shop

import "github.com/settlemq/settle/examples/shop/lifecycle"

// What the payment service may have to ask of the provider.
const (
	callNothing = iota
	callCapture
	callVoid
)

// providerCall reads from a payment's table what the provider must do before
// an input can be answered: a row that ends with money taken or refused needs
// a capture, one that ends with none a void.
func providerCall(m lifecycle.Machine, state, input string) int {
	for _, t := range m.Rows {
		if t.From != state || t.On != input || !t.Changes() {
			continue
		}
		switch t.To {
		case lifecycle.PaymentCaptured, lifecycle.PaymentDeclined:
			return callCapture
		case lifecycle.PaymentCancelled, lifecycle.PaymentReturned:
			return callVoid
		}
	}
	return callNothing
}
