// Package txmsg sends an event as a half message: the broker takes it and shows
// it to nobody, the local transaction is carried out, and then the broker is told
// to commit the message or to drop it. When it is told nothing, it asks, and is
// answered by what the database has.
//
// What decides is a row. The local transaction begins by inserting its record,
// as committed, under an id of this one half message; the caller's rows follow
// in the same transaction. A check-back inserts the record as rolled back under
// the same unique id: it finds the committed one, or bars it for ever, or, where
// a transaction is still open, can't get by and answers that it does not know.
// So no message is committed without its record, and nothing is committed after
// a check was answered with a roll-back.
//
// A record whose message the broker has not confirmed is swept up: the commit is
// told again, the message is sent anew where the broker has given it up, and at
// last it is a dead letter.
//
// An event sent this way is delivered at least once and has no order against
// other events, of the outbox or of its own key. Brokers without half messages
// are served by the outbox; see Unsupported.
package txmsg
