package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/settlemq/settle"
)

// serverRun tells which run of which server this Log has loaded from, by when it
// began. A standby that has taken over may give ids again that were read
// before, and may know the same newest checkpoint: a relay that went on from
// its own memory would pass them. So it loads again.
func (l *Log) serverRun() pgtype.Timestamptz {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.run
}

func (l *Log) loadFrom(run pgtype.Timestamptz) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.run = run
}

// sameRun refuses what another run answers; row begins with when it began.
func (l *Log) sameRun(row pgx.Row) error {
	var run pgtype.Timestamptz
	if err := row.Scan(&run, nil, nil, nil); err != nil {
		return err
	}
	if loaded := l.serverRun(); loaded.Valid && !loaded.Time.Equal(run.Time) {
		return fmt.Errorf("the server was started anew, or another one answers: %w", settle.ErrFenced)
	}
	return nil
}

// lookEvery bounds how often a relay without work asks which ids were given.
const lookEvery = 100 * time.Millisecond

const givenUpTo = `SELECT greatest(pg_sequence_last_value(pg_get_serial_sequence(settle_outbox_table()::text, 'id')::regclass), (SELECT max(id) FROM settle_outbox_row()), 0)`

// sameTable refuses a position above all ids that the table has given: it was
// emptied or made anew under the relay, and what gets the lower ids would never
// be read. Who loads again is told so; see relay.State.CheckGeneration.
func (l *Log) sameTable(ctx context.Context, cursor int64) error {
	l.mu.Lock()
	due := l.run.Valid && time.Since(l.looked) >= lookEvery
	if due {
		l.looked = time.Now()
	}
	l.mu.Unlock()
	if !due {
		return nil
	}
	var last int64
	if err := l.s.own.QueryRow(ctx, givenUpTo).Scan(&last); err != nil {
		return fmt.Errorf("look which ids the outbox has given: %w", err)
	}
	if last < cursor {
		return fmt.Errorf("the outbox has given ids up to %d only, and was read up to %d: %w", last, cursor, settle.ErrFenced)
	}
	return nil
}
