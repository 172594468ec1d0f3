// Package relay carries events from an outbox table to a broker.
//
// Machine decides: which rows to read, what to send, what to record, when to
// give up leadership. It is pure. Relay runs it: it executes the machine's
// commands against a Store and a settle.Publisher and feeds the answers back.
//
// Read the files in this order: store.go (what a database must do), command.go
// and input.go (the language between machine and runner), machine.go,
// leading.go, readers.go, sending.go, parking.go, flush.go, relay.go.
package relay
