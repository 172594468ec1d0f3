// Package concurrent checks what several processes do to one database at a
// time: consumers that have the same events in hand, people who act while a
// consumer runs, writers that commit in another order than their ids were
// given, a server that is killed under its relay.
//
// Each exported check is the body of one test, so that every store runs it under
// the same name. A store gives an Open for its inbox and an Outbox for its
// writers; the rules that one process alone can break are those of storetest.
package concurrent
