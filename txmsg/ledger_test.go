package txmsg_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/txmsg"
)

// tx gathers business rows of one local transaction.
type tx struct{ rows []string }

// row is what a ledger has under an id.
type row struct {
	record    txmsg.Record
	committed bool
	confirmed bool
	dead      bool
	due       time.Time
	tries     int
	cause     string
}

// ledger is a database in memory. Its faults are set by a test.
type ledger struct {
	mu    sync.Mutex
	rows  map[string]*row
	open  map[string]bool // ids of transactions that have not ended
	facts []string        // business rows
	asked []txmsg.Answered
	// down fails every call; doubt makes a commit's outcome unknown: what was
	// wanted is done if it is true in kept.
	down        error
	doubt, kept bool
	panics      bool // in Judge, once
}

func newLedger() *ledger { return &ledger{rows: map[string]*row{}, open: map[string]bool{}} }

var _ txmsg.Store[*tx] = (*ledger)(nil)

func (l *ledger) Scope(context.Context) (string, error) { return "here", nil }

func (l *ledger) Transact(ctx context.Context, r txmsg.Record, f func(context.Context, *tx) error) (txmsg.Outcome, error) {
	l.mu.Lock()
	if l.down != nil || l.rows[r.ID] != nil {
		defer l.mu.Unlock()
		return txmsg.RolledBack, errors.Join(l.down, errors.New("the record is there"))
	}
	l.open[r.ID] = true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, r.ID)
	}()
	var t tx
	if err := f(ctx, &t); err != nil {
		return txmsg.RolledBack, err
	}
	if err := ctx.Err(); err != nil {
		return txmsg.RolledBack, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.doubt && !l.kept {
		return txmsg.InDoubt, errors.New("connection lost")
	}
	l.rows[r.ID] = &row{record: r, committed: true, due: time.Now().Add(r.SweepAfter)}
	l.facts = append(l.facts, t.rows...)
	if l.doubt {
		return txmsg.InDoubt, errors.New("connection lost")
	}
	return txmsg.Committed, nil
}

func (l *ledger) Judge(_ context.Context, q txmsg.Inquiry) (txmsg.Verdict, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.panics {
		l.panics = false
		panic("driver")
	}
	if l.down != nil {
		return txmsg.Unknown, l.down
	}
	if l.open[q.ID] {
		return txmsg.Unknown, nil
	}
	if l.rows[q.ID] == nil {
		l.rows[q.ID] = &row{}
	}
	v := txmsg.Rollback
	if l.rows[q.ID].committed {
		v = txmsg.Commit
	}
	l.asked = append(l.asked, txmsg.Answered{Inquiry: q, Verdict: v})
	return v, nil
}

func (l *ledger) Note(_ context.Context, answers []txmsg.Answered) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, answers...)
	return l.down
}

func (l *ledger) Confirm(_ context.Context, ids []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if r := l.rows[id]; r != nil && l.down == nil {
			r.confirmed = r.committed
		}
	}
	return l.down
}

func (l *ledger) Due(_ context.Context, limit int, hold time.Duration) (open []txmsg.Open, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for _, r := range l.rows {
		if r.committed && !r.confirmed && !r.dead && !r.due.After(now) && len(open) < limit && l.down == nil {
			r.due = now.Add(hold)
			open = append(open, txmsg.Open{Record: r.record, Tries: r.tries})
		}
	}
	return open, l.down
}

func (l *ledger) Mark(_ context.Context, m txmsg.Mark) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rows[m.ID]
	if l.down != nil || r == nil || r.confirmed || r.dead {
		return l.down
	}
	r.tries, r.due, r.cause = m.Tries, time.Now().Add(m.Wait), m.Cause
	switch m.Result {
	case txmsg.ResultMoved:
		r.record.Handle = m.Handle
	case txmsg.ResultGivenUp:
		r.dead = true
	case txmsg.ResultAgain:
	}
	return nil
}

func (l *ledger) Purge(context.Context, time.Duration, int) (int, error) { return 0, nil }

// set changes the ledger's faults.
func (l *ledger) set(f func(l *ledger)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l)
}

// find returns a copy of the only record of a committed transaction.
func (l *ledger) find() (row, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.rows {
		if r.committed {
			return *r, true
		}
	}
	return row{}, false
}

func (l *ledger) answers() []txmsg.Answered {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.asked)
}

// event is a fact to send.
func event() *settle.Event {
	return &settle.Event{Type: "order.created", AggregateType: "order", AggregateID: "o-1", Topic: "orders", Payload: []byte(`{"total":1.10}`), Headers: map[string]string{"team": "sales"}}
}
