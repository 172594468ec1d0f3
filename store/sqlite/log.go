package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

// Log is the outbox table read as a log: what a relay works on. Each relay
// needs a Log of its own.
type Log struct {
	s *Store

	mu   sync.Mutex
	held holding
	seen sight // by Wait
	// Where the next Retain begins to look, so that rows which must stay are
	// not looked at again and again.
	retainFrom, pruneFrom int64
}

// holding is the lease that this Log has taken.
type holding struct {
	lease relay.Lease
}

// Log returns the outbox of the file as what a relay works on.
func (s *Store) Log() *Log { return &Log{s: s} }

var (
	_ relay.Store    = (*Log)(nil)
	_ relay.Doorbell = (*Log)(nil)
)

func (l *Log) holding() holding {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

func (l *Log) hold(h holding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = h
}

// head is one row: the newest checkpoint's epoch and number (0 if there is
// none), and the version of the control rows.
const head = `SELECT coalesce(c.epoch, 0), coalesce(c.number, 0), v.version FROM settle_control_version v
LEFT JOIN (SELECT epoch, number FROM t_outbox_checkpoint WHERE lane = ? ORDER BY epoch DESC, number DESC LIMIT 1) c`

const (
	pollAbove = `SELECT ` + rowColumns + ` FROM t_outbox_event e WHERE e.id > ? AND e.id <= ? ORDER BY e.id LIMIT ?`
	pollHoles = `SELECT ` + rowColumns + ` FROM t_outbox_event e WHERE e.id IN (SELECT value FROM json_each(?)) ORDER BY e.id LIMIT ?`
)

const maxID = math.MaxInt64

// Poll implements relay.Store. What it reads is one snapshot, taken in at most
// three statements: holes lie below what is above the cursor, so the rows come
// in order without being sorted.
func (l *Log) Poll(ctx context.Context, q relay.PollQuery) (relay.Page, error) {
	p := relay.Page{Complete: true}
	err := l.s.read(ctx, func(c *conn) error {
		lane := int64(l.holding().lease.Lane)
		if err := c.each(head, args(lane), func(v []driver.Value) bool {
			p.Epoch, p.Number, p.Controls = integer(v[0]), integer(v[1]), integer(v[2])
			return true
		}); err != nil {
			return err
		}
		return l.pollRows(c, q, &p)
	})
	if err != nil {
		return relay.Page{}, fmt.Errorf("poll outbox: %w", err)
	}
	return p, nil
}

func (l *Log) pollRows(c *conn, q relay.PollQuery, p *relay.Page) error {
	room := outboxlog.Budget{Rows: q.MaxRows, Bytes: q.MaxBytes}
	take := func(v []driver.Value) bool {
		row, size := readRow(v)
		if !room.Takes(size) {
			p.Complete = false
			return false
		}
		p.Rows = append(p.Rows, row)
		return true
	}
	// One row more than there is room for tells whether the page is cut.
	if holes := outboxlog.Below(q.Holes, q.After); len(holes) > 0 {
		if err := c.each(pollHoles, args(list(holes), int64(room.Limit())), take); err != nil {
			return err
		}
	}
	upTo := q.UpTo
	if upTo == 0 {
		upTo = maxID
	}
	if upTo <= q.After || !p.Complete {
		return nil
	}
	return c.each(pollAbove, args(q.After, upTo, int64(room.Limit())), take)
}

// Owners implements relay.Store. The file has one writer at a time and ids are
// given out in the order of commits, so nobody ever owns a missing id.
func (l *Log) Owners(context.Context, relay.Evidence) (relay.Evidence, error) {
	return relay.Evidence{Known: true, Clear: true}, nil
}

// Wait implements relay.Doorbell. It blocks until something may have been committed to the file since it
// last returned, by any process, or until limit has passed or ctx is done. It
// may return early; the first call does.
func (l *Log) Wait(ctx context.Context, limit time.Duration) error {
	l.mu.Lock()
	last := l.seen
	l.mu.Unlock()
	now, err := l.s.watch.wait(ctx, l.s.reader, last, limit)
	l.mu.Lock()
	l.seen = now
	l.mu.Unlock()
	return err
}

// read runs f with a connection that sees one committed state of the file.
// Below database/sql a row needs no second copy.
func (s *Store) read(ctx context.Context, f func(*conn) error) error {
	sc, err := s.reader.Conn(ctx)
	if err != nil {
		return err
	}
	// The pool takes the connection back or drops it; neither can fail in a
	// way that matters to what was read.
	defer func() { _ = sc.Close() }()
	return sc.Raw(func(dc any) error {
		c := dc.(*conn)
		if err := c.run(`BEGIN`); err != nil {
			return err
		}
		return errors.Join(f(c), c.run(`COMMIT`))
	})
}

// run and each ask for no cancellation: it costs a goroutine per statement,
// and what they run is bounded.
func (c *conn) run(query string) error {
	_, err := c.ExecContext(context.Background(), query, nil)
	return err
}

// each calls f with each row until it returns false. The values are f's, the
// slice is not.
func (c *conn) each(query string, args []driver.NamedValue, f func([]driver.Value) bool) error {
	rows, err := c.QueryContext(context.Background(), query, args)
	if err != nil {
		return err
	}
	v := make([]driver.Value, len(rows.Columns()))
	for {
		err := rows.Next(v)
		if isEOF(err) || err == nil && !f(v) {
			return rows.Close()
		}
		if err != nil {
			return errors.Join(err, rows.Close())
		}
	}
}

func args(values ...driver.Value) []driver.NamedValue {
	named := make([]driver.NamedValue, len(values))
	for i, v := range values {
		named[i] = driver.NamedValue{Ordinal: i + 1, Value: v}
	}
	return named
}

// row is like each for a query of one row; it returns sql.ErrNoRows if there
// is none.
func (c *conn) row(query string, args []driver.NamedValue, f func([]driver.Value)) error {
	found := false
	err := c.each(query, args, func(v []driver.Value) bool {
		found = true
		f(v)
		return false
	})
	if err == nil && !found {
		return sql.ErrNoRows
	}
	return err
}
