package txmsg

import (
	"errors"
	"fmt"
)

var (
	// ErrNotSent: the broker has not acknowledged the half message. The local
	// transaction was not begun. Where it may have the message all the same, its
	// check is answered with a roll-back.
	ErrNotSent = errors.New("the half message was not acknowledged, and nothing was done")
	// ErrRolledBack: the local transaction has not committed, and nobody receives
	// the event.
	ErrRolledBack = errors.New("the local transaction was rolled back, and the event is not sent")
	// ErrInDoubt: whether the local transaction has committed is not known. If it
	// has, the check-back delivers the event; if not, it never will be.
	ErrInDoubt = errors.New("the outcome of the commit is not known; the check-back settles it by what the database has")
	// ErrNotRunning: Run is not under way, so that nobody would answer the
	// broker's checks. Nothing was done.
	ErrNotRunning = errors.New("the sender does not run: call Run first, in a goroutine of its own; nothing was done")
	// ErrUnsupported: the broker has no half messages.
	ErrUnsupported = errors.New("no half messages")
)

// Unsupported returns why a broker of this name can't be used, and what can be
// done instead. It is ErrUnsupported.
func Unsupported(broker string) error {
	return fmt.Errorf("send transactional messages: %s has %w; append the event to the outbox in the local transaction (settle.Outbox.Append) and let the relay publish it, which loses nothing either", broker, ErrUnsupported)
}
