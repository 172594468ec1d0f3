package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"time"
)

// watch notices commits to the file. Those of this process ring the bell;
// those of others show in a number that SQLite keeps for each connection, so
// it has a connection of its own, and asks more and more rarely while nothing
// happens.
type watch struct {
	mu      sync.Mutex
	conn    *sql.Conn
	version int64
	closed  bool
}

const (
	watchFast = 500 * time.Microsecond
	watchSlow = 4 * time.Millisecond
)

func (w *watch) wait(ctx context.Context, db *sql.DB, b *bell, limit time.Duration) error {
	end := time.NewTimer(limit)
	defer end.Stop()
	pause := watchFast
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-b.rung:
			// What the ring was about is not to end the next wait too.
			_, err := w.changed(ctx, db)
			return err
		case <-next.C:
		case <-end.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		if changed, err := w.changed(ctx, db); changed || err != nil {
			return err
		}
		next.Reset(pause)
		pause = min(2*pause, watchSlow)
	}
}

const dataVersion = `PRAGMA data_version`

// changed reports whether another connection has committed since it was asked
// last; true the first time.
func (w *watch) changed(ctx context.Context, db *sql.DB) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false, sql.ErrConnDone
	}
	first := w.conn == nil
	if first {
		conn, err := db.Conn(ctx)
		if err != nil {
			return false, err
		}
		w.conn = conn
	}
	before := w.version
	err := w.conn.Raw(func(dc any) error {
		return dc.(*conn).row(dataVersion, nil, func(v []driver.Value) { w.version = integer(v[0]) })
	})
	if err != nil {
		// The next call begins with a new connection.
		return false, errors.Join(err, w.drop())
	}
	return first || w.version != before, nil
}

func (w *watch) drop() error {
	c := w.conn
	w.conn = nil
	if c == nil {
		return nil
	}
	return c.Close()
}

func (w *watch) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	return w.drop()
}
