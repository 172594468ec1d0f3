package sim

import (
	"time"

	"github.com/settlemq/settle"
)

// eventMaker makes an event when its record is written.
type eventMaker func() *settle.Event

// inserting is a business transaction at InnoDB: its statements take time, and
// what is in their way ends the statement, or the transaction.
type inserting struct {
	w      *plain
	tx     *outboxTx
	key    string
	left   int  // rows to insert
	bulk   bool // by one statement, from a SELECT
	waited bool // for a lock, and got it
}

func (p *inserting) release() { p.w.outbox.lock(p.key).release() }

// lockTimeout is how long a statement waits for a lock.
const lockTimeout = 300 * time.Millisecond

// next runs the next statement.
func (p *inserting) next() {
	if p.left == 0 {
		p.end()
		return
	}
	t := &p.w.outbox.outboxTable
	s := t.run(p.tx)
	t.give(s)
	p.row(s)
}

// row inserts the next row of a statement. Its id was given before, and what the
// statement waits for comes in between.
func (p *inserting) row(s *statement) {
	w, t := p.w, &p.w.outbox.outboxTable
	took, ends := w.between(0, 2*time.Millisecond), func() {}
	switch {
	case w.chance(w.Deadlocks):
		took, ends = w.between(0, lockTimeout), func() {
			w.probes.hit("deadlock of a producer")
			t.rollback(p.tx)
		}
	case w.chance(w.LockWaits / 2):
		took, ends = lockTimeout, func() {
			w.probes.hit("statement rolled back alone")
			t.takeBack(s)
		}
	case w.chance(w.LockWaits / 2):
		w.probes.hit("statement waited for a lock")
		took, p.waited = w.between(lockTimeout/6, lockTimeout), true
	case p.bulk && w.chance(w.LongHold):
		took = w.between(100*time.Millisecond, 1500*time.Millisecond)
	}
	w.After(took, func() {
		ends()
		switch {
		case p.tx.ended: // or the server has crashed
			p.release()
		case len(s.given) == 0 && len(s.rows) == 0: // taken back
			if w.chance(0.3) {
				p.left = 0 // the business goes on without them
			}
			p.next()
		default:
			p.write(s)
		}
	})
}

func (p *inserting) write(s *statement) {
	t := &p.w.outbox.outboxTable
	t.write(s, func() *settle.Event { return p.w.newEvent(p.tx, p.key) })
	p.left--
	if p.bulk && p.left > 0 {
		if len(s.given) == 0 {
			t.give(s)
		}
		p.row(s)
		return
	}
	t.done(s)
	p.next()
}

// end commits the transaction or rolls it back, after a while.
func (p *inserting) end() {
	w := p.w
	hold, rollback := w.hold(), w.chance(w.Rollback)
	if p.waited { // those that meet others are the long ones
		hold = max(hold, w.between(0, time.Second))
	}
	w.After(hold, func() {
		if rollback {
			w.outbox.rollback(p.tx)
		} else {
			w.outbox.commit(p.tx)
		}
		p.release()
		w.ring(w.outbox)
	})
}
