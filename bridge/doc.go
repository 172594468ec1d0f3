// Package bridge brings the dead letters of consumers that are not ours, which
// lie in a broker's own dead-letter queues and topics, into the dead-letter
// store, where people see, replay and discard them as they do all others; and
// sends back what they have ordered to be replayed.
//
// A letter is acknowledged at the broker only when the store has it, and kept
// once by its identity however often it comes. A replay goes out under one id
// until the broker has taken it: the consumer may receive it twice, as it may
// receive any event twice, and never not at all.
package bridge
