package govern

import "context"

// Controller writes what people order: pauses and skips. Each act is audited
// in the same transaction.
type Controller interface {
	// Pause stops a relay ("relay", ""), a topic, a consumer group or a key;
	// see settle.Control. Pausing twice changes nothing and is not audited again.
	Pause(ctx context.Context, a Act, kind, name string) error
	// Resume undoes Pause; ErrNotFound if nothing was paused.
	Resume(ctx context.Context, a Act, kind, name string) error
	// Known reports whether the service knows a topic or consumer group of this
	// name: whether it has done, or is to do, anything for it lately. What is not
	// known may start later, and can be paused before. Of the other kinds
	// everything is known.
	Known(ctx context.Context, kind, name string) (bool, error)
	// Skip lets the relay pass one event that it has not sent, named by its
	// event id; ErrNotFound if the outbox has no such unsent event.
	Skip(ctx context.Context, a Act, eventID string) error
}

// Store is everything governance asks of one service's database.
type Store interface {
	DeadLetters
	Trails
	Audits
	Controller
	Resender
	Restarter
}
