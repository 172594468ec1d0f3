package sim

import (
	"slices"
	"time"
)

// What a relay sees of MySQL and MariaDB (InnoDB) that PostgreSQL does otherwise:
// an id belongs to the statement that it was given to until its record is
// written, and then to the transaction, which has locked the record; ids come in
// blocks that need not be used up; without a binary log a commit is seen before
// it is on the disk; a server that comes back gives ids again.

// statement is one that inserts into the outbox.
type statement struct {
	tx    *outboxTx
	began time.Duration
	given []int64 // ids that it has written no record under
	rows  []*outboxRow
	block int // how many ids it asks for next
}

// run begins a statement of tx.
func (t *outboxTable) run(tx *outboxTx) *statement {
	s := &statement{tx: tx, began: t.w.Since(), block: 1}
	t.statements = append(t.statements, s)
	return s
}

// give gives a statement its next ids. One that does not know how many rows it
// will insert asks for twice as many each time.
func (t *outboxTable) give(s *statement) {
	for range s.block {
		id := int64(len(t.rows))
		if id <= t.given {
			t.w.probes.hit("id given again after a restart")
		}
		t.rows = append(t.rows, &outboxRow{id: id, state: rowGiven, tx: s.tx})
		s.given = append(s.given, id)
	}
	t.given = max(t.given, t.maxID())
	s.block *= 2
}

// write writes a record: from now on it is locked by the transaction.
func (t *outboxTable) write(s *statement, e eventMaker) {
	if len(s.given) == 0 {
		t.give(s)
	}
	r := t.rows[s.given[0]]
	s.given = s.given[1:]
	r.event, r.state = e(), rowOpen
	t.byEvent[r.event.ID] = r
	s.rows, s.tx.rows = append(s.rows, r), append(s.tx.rows, r)
}

// done ends a statement: nobody ever uses what it was given and has not used.
func (t *outboxTable) done(s *statement) {
	for _, id := range s.given {
		t.rows[id] = nil
	}
	if len(s.given) > 0 && len(s.rows) > 0 {
		t.w.probes.hit("ids of a block left unused")
	}
	s.given = nil
	t.statements = slices.DeleteFunc(t.statements, func(o *statement) bool { return o == s })
}

// takeBack undoes a statement, and the transaction goes on: what a lock time-out
// does (1205).
func (t *outboxTable) takeBack(s *statement) {
	for _, r := range s.rows {
		r.state, r.tx = rowRolled, nil
		t.w.hist.note(t.w.Since(), "producer", "loses a statement", r.id)
	}
	s.tx.rows = slices.DeleteFunc(s.tx.rows, func(r *outboxRow) bool { return slices.Contains(s.rows, r) })
	s.rows = nil
	t.done(s)
}

// restart is the server coming back: of the ids that it has given it knows those
// that had reached the disk, and gives the others again.
func (t *outboxTable) restart() {
	if known := t.w.from(int(t.kept), int(t.maxID())); known < int(t.maxID()) {
		t.w.hist.note(t.w.Since(), "outbox", "comes back with ids up to", known)
		t.rows = t.rows[:known+1]
	}
}

// runsSince reports whether a statement runs that ran at a time. Who lacks the
// right to see the sessions of others can't ask.
func (t *outboxTable) runsSince(at time.Duration) bool {
	for _, s := range t.statements {
		if s.began <= at {
			t.w.probes.hit("statement runs that may own a missing id")
			return true
		}
	}
	return false
}

// locked reports whether a transaction holds the record of one of the ids.
func (t *outboxTable) locked(ids []int64) bool {
	found := false
	for _, id := range ids {
		r := t.row(id)
		switch {
		case r == nil:
		case r.state == rowOpen:
			t.w.probes.hit("record of a missing id locked")
			found = true
		case r.state == rowGiven:
			r.probed = true
		}
	}
	return found
}
