package main

import (
	"context"
	"database/sql"
	"time"
)

// server is the database server that everything runs on, with one place on it
// that belongs to the run.
type server interface {
	// describe tells what it is and how durable.
	describe(ctx context.Context) (database, error)
	// create makes a place for one trial. Each commit of its sessions takes
	// longer by delay, as on a slower disk or with a synchronous standby.
	create(ctx context.Context, delay time.Duration) (*place, error)
	// remove drops it, with all that a contender may have made beside it.
	remove(p *place) error
	// lazily runs f while commits of p's own session need not be durable, and
	// makes all of them so.
	lazily(ctx context.Context, p *place, f func() error) error
	// written is what has been written since the server began, as far as it
	// can be told; table is the events'.
	written(ctx context.Context, p *place, table string) (written, error)
	// url is where a contender finds p; its sessions are counted below.
	url(p *place) string
	// cpu is the time of the processor that the contender's sessions have used,
	// in seconds; it is not known when the server is on another machine.
	cpu(ctx context.Context, p *place) (seconds float64, known bool)
	// sessions is how many the contender has.
	sessions(ctx context.Context, p *place) (int, error)
	// again tells whether a transaction that failed so succeeds when it is done
	// again: a deadlock, or a wait for a lock.
	again(err error) bool
	// close removes the run's place.
	close() error
}

// place is where one trial has its tables: a schema in PostgreSQL, a database
// in MySQL.
type place struct {
	server server
	name   string
	url    string
	db     *sql.DB   // for connections of the trial's own
	conn   *sql.Conn // one of them, for what the bench does in turn
}

// written counts since some beginning; only differences mean something.
type written struct {
	// log is bytes of the whole server's logs.
	log float64
	// events and all are row versions that updates and deletes have left
	// behind, in the events' table and in all; -1 where it is not told.
	events, all float64
}

func (w written) since(before written) written {
	d := written{w.log - before.log, w.events - before.events, w.all - before.all}
	if before.events < 0 {
		d.events = -1
	}
	return d
}

func (p *place) exec(ctx context.Context, queries ...string) error {
	for _, q := range queries {
		if _, err := p.conn.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// end closes what the trial has open.
func (p *place) end() {
	if p.conn != nil {
		_ = p.conn.Close()
	}
	if p.db != nil {
		_ = p.db.Close()
	}
}

// open connects to what url names.
func (p *place) open(ctx context.Context, driver func(string) (*sql.DB, error)) (err error) {
	if p.db, err = driver(p.url); err != nil {
		return err
	}
	// As many as producers, and what stays open; none of them is made twice.
	p.db.SetMaxIdleConns(2 * storing)
	p.conn, err = p.db.Conn(ctx)
	return err
}

// insist does f until it succeeds or fails by what doing it again would not
// mend, and counts how often it was done in vain.
func (p *place) insist(ctx context.Context, f func() error) (vain int, err error) {
	for {
		if err := f(); err == nil || !p.server.again(err) || ctx.Err() != nil {
			return vain, err
		}
		vain++
	}
}
