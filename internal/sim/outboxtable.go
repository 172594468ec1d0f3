package sim

import (
	"slices"
	"time"

	"github.com/settlemq/settle"
)

// outboxTable is the producers' side of the outbox: rows whose ids are given
// before the commit, so that commits overtake each other, rollbacks leave ids
// that nobody has, and ids of a pool appear long after their neighbours.
type outboxTable struct {
	w       *World
	rows    []*outboxRow // by id; nil where an id was never given
	byEvent map[string]*outboxRow
	open    []*outboxTx
	txs     int
	commits int
	pool    []int64
	locks   map[string]*keyLock
	crashes int
	// Of InnoDB: the statements that run, the highest id ever given, and the
	// highest that was given before what is on the disk.
	statements  []*statement
	given, kept int64
}

type rowState int

const (
	rowOpen     rowState = iota // inserted, or about to be, by an open transaction
	rowVisible                  // committed
	rowRolled                   // rolled back, or lost in a crash: no event has this id
	rowDeleted                  // committed, and deleted since
	rowReserved                 // given to a pool, used by nobody yet
	rowGiven                    // of InnoDB: given to a statement that has not written its record yet
)

type outboxRow struct {
	id      int64
	event   *settle.Event
	state   rowState
	tx      *outboxTx
	durable bool
	// late rows took their id long before their transaction began, or were
	// taken for dead where owners can't be asked: their order is not promised.
	late bool
	// passed rows were let go by a person or a policy: what follows them in
	// their key does not wait.
	passed bool
	// probed is whether its id, when only given, was found to be locked by nobody.
	probed bool
	// done rows are settled without being sent: skipped or discarded.
	done bool
	sent int // copies in the broker's log
	// sentTo counts those of each destination; over are destinations that a person
	// has given up for it, or had pass it. goes are those that it must reach, known
	// when the cursor has come to it.
	sentTo map[string]int
	over   map[string]bool
	goes   []string
	commit int // its place among asynchronous commits
}

type outboxTx struct {
	no     int
	rows   []*outboxRow
	async  bool
	ended  bool
	inside bool // holds the lock on the table that evidence looks for
}

// keyLock serialises the transactions of one key, as the row lock of the
// aggregate does.
type keyLock struct {
	held    bool
	waiting []func()
}

func (k *keyLock) acquire(f func()) {
	if k.held {
		k.waiting = append(k.waiting, f)
		return
	}
	k.held = true
	f()
}

func (k *keyLock) release() {
	k.held = false
	if len(k.waiting) > 0 {
		next := k.waiting[0]
		k.waiting = k.waiting[1:]
		k.acquire(next)
	}
}

func newOutboxTable(w *World) outboxTable {
	return outboxTable{w: w, rows: []*outboxRow{nil}, byEvent: map[string]*outboxRow{}, locks: map[string]*keyLock{}}
}

// maxID is the highest id that was ever given.
func (t *outboxTable) maxID() int64 { return int64(len(t.rows) - 1) }

func (t *outboxTable) row(id int64) *outboxRow {
	if id <= 0 || id > t.maxID() {
		return nil
	}
	return t.rows[id]
}

// visible returns the committed row with this id, or nil.
func (t *outboxTable) visible(id int64) *outboxRow {
	if r := t.row(id); r != nil && r.state == rowVisible {
		return r
	}
	return nil
}

func (t *outboxTable) lock(key string) *keyLock {
	l := t.locks[key]
	if l == nil {
		l = &keyLock{}
		t.locks[key] = l
	}
	return l
}

func (t *outboxTable) begin(async bool) *outboxTx {
	t.txs++
	tx := &outboxTx{no: t.txs, async: async}
	t.open = append(t.open, tx)
	return tx
}

// jump leaves n ids unused for ever, as a sequence does after a crash.
func (t *outboxTable) jump(n int) {
	for range n {
		t.rows = append(t.rows, nil)
	}
}

// reserve fills the pool with ids that later transactions will use.
func (t *outboxTable) reserve(n int) {
	for range n {
		t.rows = append(t.rows, &outboxRow{id: int64(len(t.rows)), state: rowReserved, late: true})
		t.pool = append(t.pool, t.maxID())
	}
}

// insert adds e to tx under the next id, or under the lowest of the pool.
func (t *outboxTable) insert(tx *outboxTx, e *settle.Event, pooled bool) *outboxRow {
	var r *outboxRow
	if pooled && len(t.pool) > 0 {
		r = t.rows[t.pool[0]]
		t.pool = t.pool[1:]
	} else {
		r = &outboxRow{id: int64(len(t.rows))}
		t.rows = append(t.rows, r)
	}
	r.event, r.state, r.tx = e, rowOpen, tx
	t.byEvent[e.ID] = r
	tx.rows, tx.inside = append(tx.rows, r), true
	return r
}

// commit makes tx visible. An asynchronous commit is durable only after a
// while, or with the next synchronous one.
func (t *outboxTable) commit(tx *outboxTx) {
	if !t.end(tx) {
		return
	}
	for _, r := range tx.rows {
		r.state = rowVisible
		t.w.hist.note(t.w.Since(), "producer", "commits", r.id, r.event.ID, r.event.AggregateID)
	}
	if !tx.async && !t.seenFirst() {
		t.flush()
		return
	}
	if t.seenFirst() && t.w.DatabaseCrashes && t.w.Phase == phaseFaults && t.w.chance(0.03) {
		t.w.After(t.w.between(0, 2*t.w.CallTime), t.w.crashDatabase) // when it costs something
	}
	t.commits++
	upTo, given, crashes := t.commits, t.maxID(), t.crashes
	for _, r := range tx.rows {
		r.commit = upTo
	}
	after := t.w.between(50*time.Millisecond, time.Second)
	if !tx.async {
		after /= 50
	}
	// The log reaches the disk in the order of commits.
	t.w.After(after, func() {
		if crashes == t.crashes {
			t.kept = max(t.kept, given)
		}
		for _, r := range t.rows {
			if r != nil && r.state == rowVisible && r.commit <= upTo {
				r.durable = true
			}
		}
	})
}

func (t *outboxTable) rollback(tx *outboxTx) {
	if !t.end(tx) {
		return
	}
	for _, r := range tx.rows {
		r.state = rowRolled
		t.w.hist.note(t.w.Since(), "producer", "rolls back", r.id)
	}
}

func (t *outboxTable) end(tx *outboxTx) bool {
	if tx.ended {
		return false
	}
	tx.ended = true
	t.open = slices.DeleteFunc(t.open, func(o *outboxTx) bool { return o == tx })
	for _, s := range slices.Clone(t.statements) {
		if s.tx == tx {
			t.done(s)
		}
	}
	return true
}

// flush makes all that is visible durable: a synchronous commit writes the log
// up to its own place.
func (t *outboxTable) flush() {
	t.kept = t.maxID()
	for i := len(t.rows) - 1; i > 0; i-- {
		if r := t.rows[i]; r != nil && r.state == rowVisible {
			r.durable = true
		}
	}
}

func (t *outboxTable) volatile() bool {
	if t.w.InnoDB {
		return t.seenFirst() // it can't tell of one row
	}
	for i := len(t.rows) - 1; i > 0; i-- {
		if r := t.rows[i]; r != nil && r.state == rowVisible && !r.durable {
			return true
		}
	}
	return false
}

// seenFirst reports whether commits are seen before they are on the disk: at
// InnoDB, where no binary log is synced before.
func (t *outboxTable) seenFirst() bool { return t.w.InnoDB && !t.w.BinaryLog }

// crash is the database's process dying: open transactions roll back, what was
// visible and not flushed is gone. A sequence goes on behind a jump; see restart
// for InnoDB.
func (t *outboxTable) crash() {
	t.crashes++
	for len(t.open) > 0 {
		t.rollback(t.open[0])
	}
	for _, r := range t.rows {
		if r == nil || r.state != rowVisible || r.durable {
			continue
		}
		r.state = rowRolled
		t.w.probes.hit("visible row lost in a crash")
		t.w.hist.note(t.w.Since(), "outbox", "loses", r.id)
		if r.sent > 0 {
			t.w.fail("nothing rolled back is sent", "row %d (%s) was sent before it was durable and is gone", r.id, r.event.ID)
		}
	}
	t.pool = nil
	if t.w.InnoDB {
		t.restart()
		return
	}
	t.jump(t.w.from(0, 8))
}
