package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
	"time"
)

// watch notices commits to the file. Those of this process ring; those of
// others show in a number that SQLite keeps for each connection, so it has a
// connection of its own.
type watch struct {
	mu     sync.Mutex
	conn   *sql.Conn
	seen   sight
	rung   chan struct{} // closed and replaced at each ring
	closed bool
}

// sight is what one who waits has seen of the file. Two are equal if nothing
// was committed in between.
type sight struct{ rings, version int64 }

func newWatch() *watch { return &watch{rung: make(chan struct{})} }

// ring tells all who wait that a transaction of this process has committed.
func (w *watch) ring() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.rings++
	close(w.rung)
	w.rung = make(chan struct{})
}

// How often a waiting relay asks for commits of other processes: less and less
// while nothing happens.
const (
	watchFast = 500 * time.Microsecond
	watchSlow = 4 * time.Millisecond
)

// wait blocks until the file has changed since last, and returns what it is
// like now; after limit it returns last.
func (w *watch) wait(ctx context.Context, db *sql.DB, last sight, limit time.Duration) (sight, error) {
	end := time.NewTimer(limit)
	defer end.Stop()
	next := time.NewTimer(watchFast)
	defer next.Stop()
	for pause := watchFast; ; pause = min(2*pause, watchSlow) {
		now, rung, err := w.look(ctx, db)
		if err != nil || now != last {
			return now, err
		}
		next.Reset(pause)
		select {
		case <-rung:
		case <-next.C:
		case <-end.C:
			return last, nil
		case <-ctx.Done():
			return last, ctx.Err()
		}
	}
}

const dataVersion = `PRAGMA data_version`

// look returns what the file is like now and where the next ring is heard.
func (w *watch) look(ctx context.Context, db *sql.DB) (sight, <-chan struct{}, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return w.seen, nil, sql.ErrConnDone
	}
	if w.conn == nil {
		c, err := db.Conn(ctx)
		if err != nil {
			return w.seen, nil, err
		}
		w.conn = c
	}
	err := w.conn.Raw(func(dc any) error {
		return dc.(*conn).row(dataVersion, nil, func(v []driver.Value) { w.seen.version = integer(v[0]) })
	})
	if err != nil {
		// The next look begins with a new connection.
		return w.seen, nil, errors.Join(err, w.drop())
	}
	return w.seen, w.rung, nil
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
