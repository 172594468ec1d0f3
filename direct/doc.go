// Package direct sends an event at once, after the business has committed, and
// stores it only when that fails: in the outbox, whose relay tries again with
// bounds, makes a dead letter of it at last, and shows it to people like any other.
//
// It is for events that may be lost now and then. A process that dies between the
// commit of its business and Send, or inside of Send before a failure is stored,
// loses the event, and nothing knows of it: only a comparison of what was done
// with what arrived can find it. There is no order, not of one key's events
// either: one that failed comes behind those sent meanwhile. What must not be lost,
// or must come in order, belongs into the outbox in the transaction of its fact.
//
// What an event costs is one call of the broker, and nothing in the database while
// all is well.
package direct
