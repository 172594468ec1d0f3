package txmsg

import (
	"context"
	"errors"

	"github.com/settlemq/settle"
)

// MaxHandle is the longest Handle in bytes.
const MaxHandle = 1 << 10

// Handle says where a broker keeps one half message. It is text that only its
// adapter understands; records keep it, so that a commit can be told again by
// another process.
type Handle string

// Verdict is what becomes of a half message.
type Verdict int

// The verdicts.
const (
	// Unknown: it can't be said yet; the broker asks again.
	Unknown Verdict = iota
	// Commit: consumers receive it.
	Commit
	// Rollback: nobody ever receives it.
	Rollback
)

func (v Verdict) String() string {
	switch v {
	case Commit:
		return "COMMIT"
	case Rollback:
		return "ROLLBACK"
	case Unknown:
	}
	return "UNKNOWN"
}

// Half is a message to be kept back.
type Half struct {
	// ID is that of the transaction. It travels with the message and comes back
	// with each check.
	ID string
	// Message is what consumers receive. Its own ID is the event id.
	Message settle.Message
}

// Check is a broker's question what became of a half message.
type Check struct {
	// ID is Half.ID as the message carries it; empty for one that was not sent by
	// this package.
	ID string
	// Handle answers it. It may be another one than that of the record: a half
	// message that was sent again lies elsewhere.
	Handle Handle
	// EventID, EventType, Key and Topic are as the message carries them.
	EventID, EventType, Key, Topic string
	// Times is how often the broker has asked before, by its own count.
	Times int
}

// ErrGone is returned by End when the broker has nothing under the handle any
// more.
var ErrGone = errors.New("the broker has the half message no more")

// Broker is a connection to a broker that has half messages, as a producer of one
// group. Package txmsgtest holds its contract as a suite.
type Broker interface {
	// Half hands a message over that is shown to nobody, once and without a second
	// try: each copy would be a message of its own. It returns only when the
	// broker holds the message as safely as any it acknowledges. An error is a
	// *settle.PublishError; under ScopeBroker the message may be there all the
	// same, and is asked for.
	Half(ctx context.Context, h Half) (Handle, error)
	// End tells what becomes of a message, Commit or Rollback, and waits until
	// the broker has said that it did so. ErrGone and errors of ScopeRecord say
	// that it never will; after any other it may have done so or not. A commit
	// that is told twice may deliver twice.
	End(ctx context.Context, h Handle, v Verdict) error
	// Answer is End as the answer to a check; Unknown leaves it to the broker to
	// ask again.
	Answer(ctx context.Context, c Check, v Verdict) error
	// Checks hands over what the broker asks, of any process of the group, until
	// ctx is done (nil) or the broker can't be heard any more. sink does not
	// block.
	Checks(ctx context.Context, sink func(Check)) error
	// WarmUp makes this process known to the broker as one of the group, by a half
	// message that rolls back: from then on it is asked.
	WarmUp(ctx context.Context) error
}
