package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/consumelog"
)

// insertSizes are the numbers of rows that one statement inserts: a statement
// costs about as much as two rows.
var insertSizes = [...]int{32, 8, 1}

const (
	insertLog = `INSERT INTO t_message_consume_log
(processed_no, consumer_group, event_id, event_type, aggregate_id, aggregate_seq, effect_key, status, attempts, payload_hash, appended_at, processed_at) VALUES `
	insertLogRow      = `(?,?,?,?,?,?,?,?,?,?,?,?)`
	insertLogConflict = ` ON CONFLICT DO NOTHING`
)

// insertQueries are the texts that insert so many rows; the connection keeps
// them prepared.
func insertQueries() (q [len(insertSizes)]string) {
	for i, n := range insertSizes {
		q[i] = insertLog + strings.TrimSuffix(strings.Repeat(insertLogRow+",", n), ",") + insertLogConflict
	}
	return q
}

const lastProcessed = `SELECT coalesce(max(processed_no), 0) FROM t_message_consume_log`

// number gives each item its processed_no.
func (a *apply) number(db context.Context) error {
	if err := a.tx.QueryRowContext(db, lastProcessed).Scan(&a.base); err != nil {
		return fmt.Errorf("read consume log: %w", err)
	}
	a.items = make([]consumelog.Item, len(a.w.Items))
	for i := range a.w.Items {
		a.items[i] = consumelog.NewItem(&a.w.Items[i], a.base+1+int64(i)).Fit(fit)
	}
	return nil
}

// recordable reports whether a log row is inserted for the item before
// anything else is known of it.
func recordable(it *consumelog.Item) bool {
	return it.RetryID == 0 && it.Intent != settle.IntentIgnore && it.Supersedes == ""
}

// record inserts the log rows of all new items, in order, as if each would
// end the way its intent says. It returns whether every item got its row.
func (a *apply) record(db context.Context) (all bool, err error) {
	todo := make([]*consumelog.Item, 0, len(a.items))
	for i := range a.items {
		if recordable(&a.items[i]) {
			todo = append(todo, &a.items[i])
		}
	}
	all = len(todo) == len(a.items)
	var args []any
	for size, n := range insertSizes {
		for len(todo) >= n {
			args = args[:0]
			for _, it := range todo[:n] {
				args = a.appendLogArgs(args, it)
			}
			res, err := a.tx.ExecContext(db, a.in.insert[size], args...)
			if err != nil {
				return false, fmt.Errorf("insert into consume log: %w", err)
			}
			if got, err := res.RowsAffected(); err != nil || got != int64(n) {
				all = false
			}
			todo = todo[n:]
		}
	}
	return all, nil
}

func (a *apply) appendLogArgs(args []any, it *consumelog.Item) []any {
	var effect, hash any
	status := consumelog.StatusApplied
	switch it.Intent {
	case settle.IntentPark:
		status = consumelog.StatusParked
	case settle.IntentDie:
		status = consumelog.StatusDead
	case settle.IntentHandle:
		if it.EffectKey != "" {
			effect = it.EffectKey
		}
	}
	if e := it.Record.Event; e != nil {
		hash = consumelog.PayloadHash(e.Payload)
	}
	return append(args, it.No, a.w.Group, it.EventID, it.EventType, it.Key, it.Seq, effect, status,
		it.Attempt, hash, micros(it.Appended), a.now.UnixMicro())
}

const writeLog = `INSERT INTO t_message_consume_log
(processed_no, consumer_group, event_id, event_type, aggregate_id, aggregate_seq, effect_key, status, attempts, payload_hash, appended_at, processed_at, root_id, reason)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)
ON CONFLICT (consumer_group, event_id) DO UPDATE SET
processed_no = excluded.processed_no, effect_key = excluded.effect_key, status = excluded.status, attempts = excluded.attempts,
processed_at = excluded.processed_at, root_id = coalesce(excluded.root_id, root_id), reason = excluded.reason`

const deleteLog = `DELETE FROM t_message_consume_log WHERE consumer_group = ? AND event_id = ?`

// log writes the log rows of a step: the item's own and those it supersedes.
func (a *apply) log(db context.Context, i int, s *consumelog.Step) error {
	it := &a.items[i]
	if s.Forget {
		_, err := a.tx.ExecContext(db, deleteLog, a.w.Group, it.EventID)
		return err
	}
	if s.Status != "" {
		args := a.appendLogArgs(nil, it)
		if !s.Effect {
			args[6] = nil
		}
		args[7] = s.Status
		if _, err := a.tx.ExecContext(db, writeLog, append(args, text(it.Root), text(s.Reason))...); err != nil {
			return err
		}
	}
	for _, id := range s.Supersede {
		if err := a.supersede(db, it, id); err != nil {
			return err
		}
	}
	return nil
}

const supersedeLog = `INSERT INTO t_message_consume_log
(processed_no, consumer_group, event_id, event_type, aggregate_id, status, appended_at, processed_at, root_id, reason)
VALUES (?,?,?,?,?,?,?,?,?,?)
ON CONFLICT (consumer_group, event_id) DO UPDATE SET status = excluded.status, effect_key = NULL, reason = excluded.reason`

// supersede marks another event of the item's lineage, which may not have
// been seen here: should it come, it is a duplicate.
func (a *apply) supersede(db context.Context, it *consumelog.Item, id string) error {
	a.extra++
	_, err := a.tx.ExecContext(db, supersedeLog, a.base+int64(len(a.items))+a.extra, a.w.Group, id, it.EventType, it.Key,
		consumelog.StatusSuperseded, micros(it.Appended), a.now.UnixMicro(), it.Root, "event "+it.EventID+" took its place")
	return err
}

const rejectLog = `UPDATE t_message_consume_log SET status = ?, reason = ? WHERE consumer_group = ? AND event_id = ?`

// reject records what a handler has refused, or what a compensation has found
// that it needs not do.
func (a *apply) reject(db context.Context, i int, s *consumelog.Step, reason string) error {
	status := consumelog.StatusRejected
	if s.Status == consumelog.StatusCompensated {
		status, reason = s.Status, s.Reason+"; "+reason
	}
	_, err := a.tx.ExecContext(db, rejectLog, status, reason, a.w.Group, a.items[i].EventID)
	return err
}

const writeSeq = `INSERT INTO t_consume_seq (consumer_group, aggregate_type, aggregate_id, last_seq) VALUES (?,?,?,?)
ON CONFLICT (consumer_group, aggregate_type, aggregate_id) DO UPDATE SET last_seq = max(last_seq, excluded.last_seq)`

func (a *apply) moveSeq(db context.Context, m consumelog.SeqMove) error {
	if _, err := a.tx.ExecContext(db, writeSeq, a.w.Group, m.AggregateType, m.AggregateID, m.Last); err != nil {
		return fmt.Errorf("move sequence of %s %s: %w", m.AggregateType, m.AggregateID, err)
	}
	return nil
}

// aftermath writes what a step says beside the log.
func (a *apply) aftermath(db context.Context, i int, s *consumelog.Step) error {
	it := &a.items[i]
	for _, id := range s.Remove {
		if _, err := a.tx.ExecContext(db, deleteRetry, id); err != nil {
			return err
		}
	}
	if s.Place != nil {
		if err := a.store(db, it, s); err != nil {
			return err
		}
	}
	if s.Letter != nil {
		if err := a.openLetter(db, it, s.Letter); err != nil {
			return err
		}
	}
	for _, c := range s.Closed {
		if err := closeLetter(db, a.tx, a.w.Group, c, it.EventID, a.now); err != nil {
			return err
		}
	}
	if s.Promote && !slices.Contains(a.keys, it.Key) {
		a.keys = append(a.keys, it.Key)
	}
	return nil
}
