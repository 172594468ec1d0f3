// Package consumer brings records from a broker to handlers, so that every
// event takes effect once in its group, in order per key.
//
//   - Machine decides, purely: Step takes an Input and returns Commands.
//   - Consumer runs it: it is the sink of a settle.Subscriber, calls handlers
//     inside the transactions of a settle.Inbox, and keeps time.
//
// A machine is made by NewMachine(group, handlers, config), with a HandlerRule
// for each event type, and driven by Step(now, input) []Command alone.
//
// Read config.go for what can be set, input.go and command.go for the language
// between the two, machine.go for the rules.
package consumer
