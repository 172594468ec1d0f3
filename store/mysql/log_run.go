package mysql

import (
	"context"
	"fmt"
	"time"

	"github.com/settlemq/settle"
)

// serverRun tells which run of which server this Log has loaded from. Each
// session of the store's own notes it when it begins; see session. A replica
// that has taken over may give ids again that were read before, and may know
// the same newest checkpoint, and so may a server that has crashed: a relay that
// went on from its own memory would pass them. So it loads again.
func (l *Log) serverRun() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.run
}

// answeredBy refuses what another run answers, and returns whether what it has
// read may be lost.
func (l *Log) answeredBy(run string, notDurable bool) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run != "" && l.run != run {
		return true, fmt.Errorf("the server was started anew, or another one answers: %w", settle.ErrFenced)
	}
	return notDurable || l.replicated, nil
}

// lookEvery bounds how often a relay without work asks which ids were given.
const lookEvery = 100 * time.Millisecond

// The counter tells of ids whose rows are gone, the table of ids that a program
// has chosen itself.
const givenUpTo = `SELECT greatest(coalesce((SELECT auto_increment - 1 FROM information_schema.tables WHERE ` + logTable + `), 0),
 coalesce((SELECT max(id) FROM ` + logIDs + `), 0))`

// sameTable refuses a position above all ids that the table has given: it was
// emptied or made anew under the relay, and what gets the lower ids would never
// be read. Who loads again is told so; see relay.State.CheckGeneration.
func (l *Log) sameTable(ctx context.Context, cursor int64) error {
	l.mu.Lock()
	due := l.run != "" && time.Since(l.looked) >= lookEvery
	if due {
		l.looked = time.Now()
	}
	l.mu.Unlock()
	if !due {
		return nil
	}
	var last int64
	if err := l.s.own.QueryRowContext(ctx, l.s.reading(givenUpTo)).Scan(&last); err != nil {
		return fmt.Errorf("look which ids the outbox has given: %w", err)
	}
	if last < cursor {
		return fmt.Errorf("the outbox has given ids up to %d only, and was read up to %d: %w", last, cursor, settle.ErrFenced)
	}
	return nil
}
