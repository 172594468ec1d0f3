package sim

import (
	"errors"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/txmsg"
)

var (
	errHalfAway    = &settle.PublishError{Scope: settle.ScopeBroker, Err: errors.New("away")}
	errHalfTopic   = &settle.PublishError{Scope: settle.ScopeTopic, Err: errors.New("no such topic")}
	errHalfRefused = &settle.PublishError{Scope: settle.ScopeRecord, Err: errors.New("too large")}
	errHalfLost    = errors.New("no answer")
	errHalfBarred  = errors.New("the record is there already")
)

// halfLedger is the database: records under a unique id, and the ids that open
// transactions hold.
type halfLedger struct {
	w     *halfWorld
	rows  map[string]*halfRow
	order []string
	open  map[string]bool
}

type halfRow struct {
	handle          txmsg.Handle
	committed       bool
	confirmed, dead bool
	due             time.Duration
	tries           int
}

// fault is that of a database which does not answer.
func (l *halfLedger) fault() error {
	if !l.w.calm && l.w.chance(0.05) {
		return errHalfLost
	}
	return nil
}

// begin inserts the record, which is first.
func (l *halfLedger) begin(id string) bool {
	if l.rows[id] != nil {
		return false
	}
	l.open[id] = true
	return true
}

func (l *halfLedger) rollBack(id string) { delete(l.open, id) }

func (l *halfLedger) commit(id string, h txmsg.Handle) bool {
	delete(l.open, id)
	if l.rows[id] != nil {
		return false
	}
	if l.w.broker.droppedBy(id) {
		l.w.broken("nothing is committed after a roll-back was answered", "%s is", id)
	}
	l.insert(id, &halfRow{handle: h, committed: true, due: l.w.Since() + 8*time.Second})
	return true
}

func (l *halfLedger) insert(id string, r *halfRow) {
	l.rows[id] = r
	l.order = append(l.order, id)
}

func (l *halfLedger) judge(q txmsg.Inquiry) (txmsg.Verdict, error) {
	if err := l.fault(); err != nil {
		return txmsg.Unknown, err
	}
	if l.open[q.ID] {
		l.w.probes.hit("half: check during a transaction")
		return txmsg.Unknown, nil
	}
	if l.rows[q.ID] == nil {
		l.insert(q.ID, &halfRow{})
	}
	v := txmsg.Rollback
	if l.rows[q.ID].committed {
		v = txmsg.Commit
	}
	if err := l.fault(); err != nil { // it stands, and the answer is lost
		return txmsg.Unknown, err
	}
	return v, nil
}

func (l *halfLedger) confirm(ids []string) error {
	if err := l.fault(); err != nil {
		return err
	}
	for _, id := range ids {
		if r := l.rows[id]; r != nil && r.committed {
			r.confirmed, r.dead = true, false
		}
	}
	return nil
}

func (l *halfLedger) dueNow(limit int, hold time.Duration) (open []txmsg.Open, err error) {
	if err := l.fault(); err != nil {
		return nil, err
	}
	for _, id := range l.order {
		r := l.rows[id]
		if r.committed && !r.confirmed && !r.dead && r.due <= l.w.Since() && len(open) < limit {
			r.due = l.w.Since() + hold
			e := &settle.Event{ID: "e" + id, Type: "order.created", AggregateID: "o", Topic: "orders"}
			open = append(open, txmsg.Open{Record: txmsg.Record{ID: id, Handle: r.handle, Event: e}, Tries: r.tries})
		}
	}
	return open, nil
}

func (l *halfLedger) mark(m txmsg.Mark) error {
	r := l.rows[m.ID]
	if err := l.fault(); err != nil {
		return err
	}
	if r.confirmed || r.dead {
		return nil
	}
	switch m.Result {
	case txmsg.ResultAgain:
		r.tries, r.due = m.Tries, l.w.Since()+m.Wait
	case txmsg.ResultMoved:
		r.handle = m.Handle
	case txmsg.ResultGivenUp:
		r.dead = true
	}
	return nil
}
