package direct

import (
	"context"
	"errors"

	"github.com/settlemq/settle"
)

// Store keeps an event that could not be sent, for good, where a relay finds it.
// An event that is there already is kept. It blocks for the database and may be
// called from several goroutines.
type Store func(ctx context.Context, e *settle.Event) error

// InOutbox returns a Store that appends to an outbox in a transaction of its own.
// inTx runs its argument in one, commits when that returns nil, and rolls back
// otherwise.
func InOutbox[Tx any](outbox settle.Outbox[Tx], inTx func(ctx context.Context, f func(Tx) error) error) Store {
	return func(ctx context.Context, e *settle.Event) error {
		err := inTx(ctx, func(tx Tx) error { return outbox.Append(ctx, tx, e) })
		if errors.Is(err, settle.ErrDuplicateEvent) {
			return nil
		}
		return err
	}
}
