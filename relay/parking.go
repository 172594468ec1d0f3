package relay

import (
	"container/heap"
	"slices"
	"time"

	"github.com/settlemq/settle"
)

// Causes that a person reads beside a parked row.
const (
	causePaused  = "its key is paused"
	causeSuspect = "it was in doubt when a process died; it is tried among few, in the end alone"
	causeUnknown = "the broker does not answer for this key while it answers for others"
	causeGone    = "its outbox row is gone"
	causeBehind  = "it waits behind a failed event of its key"
)

// parkedState is what is happening with a parked key.
type parkedState int

const (
	parkedIdle    parkedState = iota // waits for its time
	parkedReading                    // its rows are being read
	parkedTrial                      // its first rows are suspects that are tried next
	parkedSending                    // rows of it are in hand or in flight
)

// parkedKey is a key that is blocked at a destination. Its rows are in
// t_outbox_parked; in memory there is only this.
type parkedKey struct {
	key   string
	due   time.Time
	dead  bool // its head is a dead letter and waits for a person
	state parkedState
	// head is the flush that changes what its first row is: no row is read, and
	// nothing of the key is sent, before it is committed.
	head int64
	// flush is the newest one that changes its rows; those that join behind do
	// not keep the head from being read, but they keep the key from being free.
	flush  int64
	read   int64 // flush when the rows under way were asked for
	inHand int
	queued bool // it has an entry among the due
	good   bool // its head was taken, or may be tried with those behind it: read more than one row
	rounds int  // pages drained in a row
	// doubt is true for a key that was parked when several leaders died.
	doubt bool
}

// failure is why a row is parked or dies.
type failure struct {
	class         settle.Class
	cause         string
	attempts      int
	at            time.Time
	dead, suspect bool
}

func (m *Machine) loadParked(keys []ParkedKey) {
	m.ownTries.keep(keys)
	for _, k := range keys {
		d := m.destination(k.Destination)
		pk := m.addKey(d, k.Key)
		pk.due, pk.doubt, pk.good = k.HeadDue, m.sus.on, m.sus.on
		m.setDead(pk, k.HeadDead)
		m.schedule(d, pk)
	}
}

func (m *Machine) addKey(d *destination, key string) *parkedKey {
	if d.keys == nil {
		d.keys = make(map[string]*parkedKey)
	}
	pk := &parkedKey{key: key}
	d.keys[key] = pk
	m.parked++
	return pk
}

func (m *Machine) setDead(pk *parkedKey, dead bool) {
	if pk.dead != dead {
		pk.dead = dead
		if dead {
			m.dead++
		} else {
			m.dead--
		}
	}
}

// park blocks the row's key from this row on.
func (m *Machine) park(d *destination, it *item, f failure) {
	pk := m.addKey(d, it.key())
	pk.due, pk.good = f.at, f.suspect
	m.addPark(d, it, f)
	m.touch(d, pk)
	if f.dead {
		m.die(d, pk, it, f)
	}
}

// follow parks a row behind others of its key.
func (m *Machine) follow(d *destination, it *item) {
	pk := d.keys[it.key()]
	m.addPark(d, it, failure{
		class: settle.ClassFollower, cause: causeBehind, attempts: it.row.Attempts, at: m.now, suspect: m.isSuspect(d, it),
	})
	m.join(d, pk)
}

func (m *Machine) addPark(d *destination, it *item, f failure) {
	p := Park{
		ID: it.row.ID, Key: it.key(), Destination: d.name, From: it.from, MessageID: it.row.MessageID,
		Attempts: f.attempts, NextAt: f.at, Class: f.class, Cause: f.cause, Suspect: f.suspect, Share: m.shareOf(d, it),
	}
	if it.row.Event != nil {
		p.EventID, p.EventType = it.row.Event.ID, it.row.Event.Type
	}
	m.flush.Park = append(m.flush.Park, p)
	m.stats.Parked++
	m.left(d, it)
	if f.suspect {
		m.sus.parked(d, it)
	}
}

// die makes the key's head a dead letter. By policy the key then goes on
// without it, otherwise it waits for a person.
func (m *Machine) die(d *destination, pk *parkedKey, it *item, f failure) {
	m.flush.Dead = append(m.flush.Dead, Death{
		ID: it.row.ID, Destination: d.name, Key: pk.key, From: FromParked,
		Attempts: f.attempts, Class: f.class, Cause: f.cause, Unblock: m.cfg.Pass,
	})
	m.stats.Dead++
	m.setDead(pk, !m.cfg.Pass)
	pk.due = m.now
	m.touch(d, pk)
}

// refused takes a row that the broker refused by itself: an attempt.
func (m *Machine) refused(d *destination, it *item, err error) {
	f := failure{class: settle.ClassPublish, cause: err.Error(), attempts: it.row.Attempts + 1}
	wait, retry := m.cfg.Retry.Next(it.row.Event.ID, f.attempts, err)
	f.at, f.dead = m.now.Add(wait), !retry
	if settle.IsPermanent(err) {
		f.class, f.dead = settle.ClassPermanent, true
	}
	if it.from != FromParked {
		if d.keys[it.key()] != nil {
			m.follow(d, it)
			return
		}
		m.park(d, it, f)
		return
	}
	pk := d.keys[it.key()]
	m.letKeyGo(d, pk)
	pk.good, pk.rounds, pk.due = false, 0, f.at
	if f.dead {
		m.die(d, pk, it, f)
	} else {
		m.flush.Attempts = append(m.flush.Attempts, Attempt{
			ID: it.row.ID, Destination: d.name, Attempts: f.attempts, NextAt: f.at, Class: f.class, Cause: f.cause,
		})
		m.touch(d, pk)
	}
	m.handBack(d, pk)
}

// behind takes a row that was not acknowledged because one of its key before
// it was refused. It made no attempt.
func (m *Machine) behind(d *destination, it *item) {
	if it.from == FromParked {
		m.handBack(d, d.keys[it.key()])
		return
	}
	m.follow(d, it)
}

// putOff leaves a parked row where it is after an unknown outcome.
func (m *Machine) putOff(d *destination, it *item) {
	pk := d.keys[it.key()]
	m.letKeyGo(d, pk)
	pk.due, pk.rounds = laterOf(m.now, d.until), 0
	if it.again {
		m.stats.PublishedAgain++
	}
	m.handBack(d, pk)
}

func laterOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// drained takes note that a parked row was acknowledged.
func (m *Machine) drained(d *destination, key string) {
	pk := d.keys[key]
	pk.good, pk.due = true, m.now
	m.touch(d, pk)
	m.handBack(d, pk)
}

// handBack ends one row's stay in memory.
func (m *Machine) handBack(d *destination, pk *parkedKey) {
	pk.inHand--
	if pk.inHand <= 0 {
		pk.inHand, pk.state = 0, parkedIdle
		m.schedule(d, pk)
	}
}

// letKeyGo drops rows of a key that wait to be drained; the row at hand is
// still counted.
func (m *Machine) letKeyGo(d *destination, pk *parkedKey) {
	d.drain = slices.DeleteFunc(d.drain, func(it item) bool {
		gone := it.key() == pk.key
		if gone {
			pk.inHand--
		}
		return gone
	})
}

// dropDrain drops all rows that wait to be drained: they are in their table.
func (m *Machine) dropDrain(d *destination) {
	rows := d.drain
	d.drain = nil
	for i := range rows {
		m.handBack(d, d.keys[rows[i].key()])
	}
}

// touch notes that the flush being gathered changes the key from its head on.
func (m *Machine) touch(d *destination, pk *parkedKey) {
	pk.head = m.flush.seq + 1
	m.join(d, pk)
}

// join notes that the flush being gathered changes the key's rows.
func (m *Machine) join(d *destination, pk *parkedKey) {
	if pk.flush != m.flush.seq+1 {
		pk.flush = m.flush.seq + 1
		m.flush.touched = append(m.flush.touched, touchedKey{d, pk})
	}
}

// schedule puts an idle key among the due; one whose rows are being changed
// comes there when that is committed.
func (m *Machine) schedule(d *destination, pk *parkedKey) {
	if pk.state == parkedIdle && !pk.dead && !pk.queued && pk.head <= m.flush.committed {
		pk.queued = true
		heap.Push(&d.due, dueKey{pk.due, pk})
	}
}

// dueKey returns the key of d whose head may be tried now, the first of them.
func (m *Machine) dueKey(d *destination) *parkedKey {
	for len(d.due) > 0 && m.reached(d.due[0].at) {
		pk := d.due[0].pk
		gone := d.keys[pk.key] != pk || pk.state != parkedIdle || pk.dead || m.keyPaused(pk.key) || pk.head > m.flush.committed
		if !gone && !m.now.Before(pk.due) {
			return pk
		}
		heap.Pop(&d.due)
		pk.queued = false
		if !gone { // else it is busy or blocked, or no more; what changes that schedules it again
			m.schedule(d, pk)
		}
	}
	return nil
}

// nextDue takes that key from the due.
func (m *Machine) nextDue(d *destination) *parkedKey {
	pk := m.dueKey(d)
	if pk != nil {
		heap.Pop(&d.due)
		pk.queued = false
	}
	return pk
}

// dueKey is a parked key's place in time; dueKeys a heap of them.
type dueKey struct {
	at time.Time
	pk *parkedKey
}

type dueKeys []dueKey

func (h dueKeys) Len() int { return len(h) }
func (h dueKeys) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].pk.key < h[j].pk.key
}
func (h dueKeys) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *dueKeys) Push(x any)   { *h = append(*h, x.(dueKey)) }
func (h *dueKeys) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
