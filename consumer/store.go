package consumer

import (
	"time"

	"github.com/settlemq/settle"
)

// storeState is how the group's database is doing.
type storeState struct {
	down bool
	// write is true when it was a transaction that failed: that reads succeed
	// says nothing then.
	write bool
	wait  time.Duration
	until time.Time
	// rows bounds a transaction; it is halved while transactions fail, so that
	// one event that can't be committed does not hold up the others for long.
	rows int
	// solo counts failures in a row of a transaction with this event alone.
	solo   string
	failed int
	// answered is true when the store has answered something since a
	// transaction failed last. Without that it may be down, and says nothing of
	// an event.
	answered bool
}

// storeDown pauses everything for a while, longer each time. Who stops cuts his
// own questions off, which says nothing of the store.
func (m *Machine) storeDown(err error, write bool) {
	if m.stopping {
		return
	}
	s := &m.store
	if s.wait == 0 {
		s.wait = m.cfg.StoreWait
	} else if !m.now.Before(s.until) { // one step for all that failed at once
		s.wait = min(2*s.wait, m.cfg.MaxStoreWait)
	}
	s.until = m.now.Add(s.wait)
	s.write = s.write || write
	if !s.down {
		s.down = true
		m.emit(Note{State: "store", Now: "down", Err: err})
	}
}

func (m *Machine) storeUp(write bool) {
	s := &m.store
	s.answered = true
	if write {
		s.rows = min(2*s.rows, m.cfg.BatchRows)
		s.solo, s.failed = "", 0
	}
	if s.write && !write {
		return
	}
	s.write, s.wait, s.until = false, 0, time.Time{}
	if s.down {
		s.down = false
		m.emit(Note{State: "store", Now: "up"})
	}
}

// transactionFailed deals with an error of Inbox.Apply that a repetition may
// cure. No attempt is counted. An event that keeps failing alone is moved to
// the retry store, where its attempts are counted: if that can't be committed
// either, it is the store.
func (m *Machine) transactionFailed(w *work, err error) {
	m.storeDown(err, true)
	answered := m.store.answered
	m.store.answered = false
	m.store.rows = max(1, min(m.store.rows, len(w.items))/2)
	if len(w.items) != 1 {
		return
	}
	if w.items[0].Intent != settle.IntentHandle {
		m.acquit(w.refs[0])
		return
	}
	it, s := &w.items[0], &m.store
	if id := it.Record.Event.ID; s.solo != id {
		s.solo, s.failed = id, 0
	}
	if answered {
		s.failed++
	}
	if s.failed < soloRetries {
		return
	}
	s.failed = 0
	if r := w.refs[0]; r.d != nil {
		park := settle.Item{
			Record: it.Record, Intent: settle.IntentPark, NextAt: m.now,
			Class: settle.ClassSuspect, Cause: cause(err, ""),
		}
		r.d.write(r.i, park)
	} else {
		m.due.fail(r.i, m.outcome(it, err, ""), m.cfg.Pass)
		m.due.items[r.i].blamed = true
	}
}

// acquit takes back the attempt of a due event that was blamed for what its
// transaction came to: that can't be written down either, so it is the store.
func (m *Machine) acquit(r ref) {
	if r.d != nil || !m.due.items[r.i].blamed {
		return
	}
	x := &m.due.items[r.i]
	x.out, x.blamed = x.restored(m.now), false
}
