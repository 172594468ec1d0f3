package sqlite

import (
	"database/sql"
	"errors"

	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/outboxlog"
)

const (
	delayedOwed = `SELECT destination, coalesce(owed, '') FROM t_outbox_delayed WHERE id = ?`
	extraOwed   = `SELECT '', coalesce(owed, '') FROM t_outbox_extra WHERE id = ?`

	oweDelayed = `UPDATE t_outbox_delayed SET owed = ? WHERE id = ?`
	oweExtra   = `UPDATE t_outbox_extra SET owed = ? WHERE id = ?`
)

// leaveShares takes rows of events that go to several destinations out of their
// side tables, for those that are done with them.
func (w *flushing) leaveShares(f *relay.Flush) {
	for _, l := range outboxlog.LeavingOf(f) {
		read, write, drop := extraOwed, oweExtra, dropExtra
		if l.From == relay.FromDelayed {
			read, write, drop = delayedOwed, oweDelayed, dropDelayed
		}
		_, recorded, found := w.owed(read, l.ID)
		switch left := l.Rest(recorded); {
		case !found:
		case len(left) == 0:
			w.exec(drop, l.ID)
		default:
			w.exec(write, outboxlog.PackOwed(left), l.ID)
		}
	}
}

// owed reads what a row is recorded to be owed to; nil where nothing is recorded.
func (w *flushing) owed(query string, id int64) (destination string, owed []string, found bool) {
	if w.err != nil {
		return "", nil, false
	}
	var packed string
	err := w.tx.QueryRowContext(w.ctx, query, id).Scan(&destination, &packed)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil, false
	}
	if err == nil {
		owed, err = outboxlog.UnpackOwed(packed)
	}
	w.err = err
	return destination, owed, err == nil
}

// joinDelayed has a delayed row owed to one destination more.
func (w *flushing) joinDelayed(d *relay.Delay) {
	destination, recorded, _ := w.owed(delayedOwed, d.ID)
	w.exec(addDelayed, d.ID, d.EventID, d.Destination, d.Key, d.Due.UnixMicro())
	w.exec(oweDelayed, outboxlog.PackOwed(outboxlog.Joined(recorded, destination, d.Destination)), d.ID)
}

const passSkipOfLast = `UPDATE settle_skip SET passed_at = ?1 WHERE event_id = ?2 AND NOT EXISTS (SELECT 1 FROM t_outbox_parked WHERE id = ?3)
AND NOT EXISTS (SELECT 1 FROM t_outbox_delayed WHERE id = ?3) AND NOT EXISTS (SELECT 1 FROM t_outbox_extra WHERE id = ?3)`

// passSkip ends a skip when the last destination has passed the event.
func (w *flushing) passSkip(s *relay.Skip) {
	switch over, beside := outboxlog.IsOver(s.Share); {
	case over && beside:
		w.exec(passSkipOfLast, w.now, s.EventID, s.ID)
	case over:
		w.exec(passSkip, w.now, s.EventID)
	}
}
