package bridge

import (
	"context"

	"github.com/settlemq/settle/govern"
)

// MaxLetters and MaxBytes bound one call of a Sink: so many letters, and so
// many bytes of Raw unless a single letter is larger.
const (
	MaxLetters = 100
	MaxBytes   = 4 << 20
)

// Sink takes letters and returns nil when all of them are kept durably. It
// blocks until then; that is the back-pressure. It does not change letters.
type Sink func(ctx context.Context, letters []Letter) error

// Source is where the dead letters of one consumer group lie.
type Source interface {
	// Letters passes the dead letters of the group to sink until ctx is done,
	// then waits for the call in flight and returns nil. It calls sink from one
	// goroutine, in the order in which the letters lie at each place, as soon as
	// there is one: it does not wait for a full batch.
	//
	// A letter is acknowledged at the broker only after sink has returned nil for
	// it; after any error the same letters come again, from the first one, after
	// a short wait, and meanwhile no more than one batch is in hand. A letter
	// that can't be understood is passed on like any other.
	//
	// It reconnects for ever with capped back-off, and returns an error for what
	// waiting for the broker does not mend: a place that does not exist or may
	// not be read (the caller tells a person and calls again), settle.ErrClosed.
	// It may be called again after it has returned; one call at a time.
	//
	// Crash here: what sink has kept and the broker was not told of comes again,
	// with the same Identity.
	Letters(ctx context.Context, sink Sink) error

	// Return sends a letter back, with Raw, key, and headers as they were but for
	// what the dead-letter way has added to them, and HeaderReturn set to r.ID.
	// It returns nil only when the broker holds it durably, and where the broker
	// routes, in at least one queue. An error is a *settle.PublishError, as of
	// settle.Publisher: after one of ScopeBroker the outcome is not known, and
	// Return is called again with the same r; ScopeRecord means never. It may be
	// called from several goroutines, while Letters runs and while it does not.
	//
	// Crash here: the message may be there. It is sent again under the same id,
	// and its consumer knows it by its event id.
	Return(ctx context.Context, r Return) error
}

// Return is one message on its way back.
type Return struct {
	// ID is the same on every try of one replay, and another one's for the next.
	ID string
	// To is one of Letter.To.
	To Target
	// Letter is as it was passed to the sink, but that Record.Event and DecodeErr
	// are not set, and that Trace and History may be shorter.
	Letter Letter
}

// The words in which governance keeps what a letter tells.
type (
	// Place is where a message lies, or lay.
	Place = govern.Place
	// Death is one entry of a letter's history.
	Death = govern.Death
	// Target says how far a letter goes back.
	Target = govern.Target
)

// The targets.
const (
	ToGroup  = govern.ToGroup
	ToOrigin = govern.ToOrigin
)
