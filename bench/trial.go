package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// trial is one run of one contender over a backlog, or under a steady rate.
type trial struct {
	engine    engine
	contender contender
	// events to carry, warm of them before anything is measured, with keys
	// taken in turn.
	events, warm, keys int
	// perTransaction is how many events a transaction stores.
	perTransaction int
	// largeEvery makes one of so many events a large one; 0 none.
	largeEvery int
	// poisoned makes the sink refuse the events of one key.
	poisoned bool
	hold     hold
	// kill ends the process at half way; another then goes on.
	kill bool
	// broker is the URL of the one that it publishes to; "" for the null sink.
	broker string
	// rate of events a second that are stored while the contender runs; 0
	// stores all before.
	rate int
}

// hold is a transaction that stays open while the contender runs.
type hold int

const (
	holdNothing hold = iota
	// holdWrite has inserted an event.
	holdWrite
	// holdSnapshot has only read, and keeps what it saw from being cleaned up.
	holdSnapshot
)

// outcome is what a trial has shown. What was not measured is 0.
type outcome struct {
	// Rate is events per second after the warm-up.
	Rate float64
	// RelayCPU and ServerCPU are seconds per million events, of the
	// contender's process and of its sessions at the server.
	RelayCPU, ServerCPU float64
	// Log is bytes per event that the server wrote into its logs while it ran.
	Log float64
	// OldEvents and Old are row versions left behind per event, in the events'
	// table and in all tables; below 0 where the server does not tell.
	OldEvents, Old float64
	// Stopped is set when it made no progress for so long that it was given
	// up; Carried is the share of the events published until then.
	Stopped bool
	Carried float64
	// Twice is how many events were published more than once, Lost how many
	// never, after all that was held up was let go.
	Twice, Lost int
	// Latencies from commit to publish, in ms.
	P50, P99, P999 float64
	// Memory is the most that the process had, in MB.
	Memory float64
}

// patience is how long a contender may publish nothing before it is given up.
const patience = 3 * time.Second

// killedLease is the lease where a process is killed, so that nobody waits.
const killedLease = time.Second

// stand is a trial that is set up.
type stand struct {
	trial
	server server
	place  *place
	board  *board
	path   string
}

func (t trial) run(ctx context.Context, s server, dir string) (out outcome, err error) {
	p, err := s.create(ctx, 0)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, s.remove(p)) }()
	st := &stand{trial: t, server: s, place: p, path: filepath.Join(dir, p.name+".board")}
	if err := t.contender.layout.create(ctx, p); err != nil {
		return out, fmt.Errorf("make the tables: %w", err)
	}
	// Before what is carried was stored: what is older than an open transaction
	// is no trouble to anybody.
	release, err := st.holdOpen(ctx)
	if err != nil {
		return out, err
	}
	defer release()
	if t.rate == 0 {
		if err := st.fill(ctx); err != nil {
			return out, fmt.Errorf("store events: %w", err)
		}
	}
	if err := st.openBoard(); err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, st.board.close(), os.Remove(st.path)) }()
	before, err := s.written(ctx, p, t.contender.layout.table)
	if err != nil {
		return out, err
	}
	relay, err := st.start(ctx)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, relay.stop()) }()
	switch {
	case t.kill:
		relay, err = st.killHalfway(ctx, relay)
	case t.rate > 0:
		err = st.steady(ctx, relay, &out)
	default:
		err = st.await(ctx, relay, st.expected())
	}
	if out.Stopped = errors.Is(err, errStopped); err != nil && !out.Stopped {
		return out, err
	}
	err = st.collect(ctx, relay, release, before, &out)
	return out, err
}

// expected is how many events are to be published while a transaction is held.
func (t trial) expected() int {
	if t.poisoned {
		return t.events - (t.events-1-poisonedKey+t.keys)/t.keys
	}
	return t.events
}

const poisonedKey = 7

// extra is 1 when there is an event that is committed last of all.
func (t trial) extra() int {
	if t.hold == holdWrite {
		return 1
	}
	return 0
}

// capacity is how many events the board has room for.
func (t trial) capacity() int { return t.events + t.extra() }

func (s *stand) openBoard() (err error) {
	if s.board, err = mapBoard(s.path, s.capacity()); err != nil {
		return err
	}
	s.board.head.Expected, s.board.head.Warm = int64(s.expected()), int64(s.warm)
	if s.rate > 0 {
		s.board.head.Timed = 1
	}
	return nil
}

// fill stores the backlog. Its rows are read once, so that no contender pays for
// the first look at them.
func (s *stand) fill(ctx context.Context) error {
	return s.server.lazily(ctx, s.place, func() error {
		return s.contender.layout.fill(ctx, s.place, filling{s.events, s.keys, max(1, s.perTransaction), s.largeEvery})
	})
}

// holdOpen opens the transaction of the scene. Releasing it commits; it may be
// done twice.
func (s *stand) holdOpen(ctx context.Context) (release func(), err error) {
	if s.hold == holdNothing {
		return func() {}, nil
	}
	l := s.contender.layout
	tx, err := s.place.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil {
		return nil, err
	}
	if s.hold == holdWrite {
		n := s.events
		_, err = tx.ExecContext(ctx, l.insert, eventID(n), eventKey(n, s.keys), string(payload(n)))
	} else {
		var none int
		err = tx.QueryRowContext(ctx, `SELECT count(*) FROM `+l.table).Scan(&none)
	}
	if err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return func() { _ = tx.Commit() }, nil
}

var errStopped = errors.New("it stopped")

// await waits until so many events were published.
func (s *stand) await(ctx context.Context, p *process, events int) error {
	last, since := int64(-1), time.Now()
	for {
		now := s.board.head.Published.Load()
		if now >= int64(events) {
			return nil
		}
		if now != last {
			last, since = now, time.Now()
		}
		if time.Since(since) > patience {
			return errStopped
		}
		if err := p.failed(); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		time.Sleep(200 * time.Microsecond)
	}
}

func (s *stand) killHalfway(ctx context.Context, p *process) (*process, error) {
	if err := s.await(ctx, p, s.expected()/2); err != nil {
		return p, err
	}
	// At any point of a batch.
	time.Sleep(time.Duration(rand.IntN(10_000)) * time.Microsecond)
	if err := p.kill(); err != nil {
		return p, err
	}
	next, err := s.start(ctx)
	if err != nil {
		return p, err
	}
	return next, s.await(ctx, next, s.expected())
}
