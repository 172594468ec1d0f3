package settle

import "context"

// Outbox stores events in the transaction that makes them true. Tx is the
// driver's own type (*sql.Tx, pgx.Tx); a pool does not compile.
type Outbox[Tx any] interface {
	// Append stores events in tx, in order, after Event.Prepare. It blocks for
	// the database only, never for a broker, and may be called from several
	// goroutines with different transactions.
	//
	// Call it after the business rows of the same key have been locked or
	// written: what serialises those is what orders the events. The caller
	// keeps ownership of tx and of events; the fields that Prepare fills are
	// set in place.
	//
	// On an error nothing of this call is stored once the caller rolls back:
	// an *InvalidEventError or ErrDuplicateEvent is the event's fault, anything
	// else is the database's. A crash before the caller's commit leaves neither
	// the fact nor the event; a crash after it leaves both, and the relay
	// delivers the event.
	Append(ctx context.Context, tx Tx, events ...*Event) error
}
