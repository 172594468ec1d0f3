// Package settle is the vocabulary of reliable message delivery: a fact is
// committed together with its event, the event reaches the broker, every
// consumer group applies it once in effect, and whatever has not settled yet
// is visible by name, with its age and its cause.
//
// Settle promises at-least-once delivery, idempotent effects, order per key
// and nothing silent. It does not promise exactly-once delivery and it does
// not promise a global order.
//
// Read the files in this order:
//
//   - event.go: the fact that travels, and the limits it must keep
//   - outbox.go: how an event is stored in the caller's own transaction
//   - publisher.go: how the relay hands events to a broker
//   - subscriber.go: how a broker hands records to a consumer group
//   - inbox.go: how a group records what it has done, in the transaction that does it
//   - retry.go: when a failed attempt is tried again
//   - errors.go: what an error means to the engine
//   - envelope.go: the bytes on the wire
//
// The package does no I/O and starts no goroutine.
package settle
