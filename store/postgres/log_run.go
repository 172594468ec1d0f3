package postgres

import (
	"fmt"

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
