package mysql

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/consumelog"
)

const deleteRetry = `DELETE FROM t_consume_retry WHERE id = ?`

const insertRetry = `INSERT INTO t_consume_retry
(id, consumer_group, aggregate_id, event_id, event_type, aggregate_type, aggregate_seq, biz_key, trace_id, state, blocking, attempts,
 next_at, class, cause, accept_duplicate, parked_at, gap_since, topic, ` + "`partition`, `offset`" + `, position, recorded_at, record_key, raw, headers)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON DUPLICATE KEY UPDATE attempts = attempts`

const updateRetry = `UPDATE t_consume_retry SET state = ?, attempts = coalesce(?, attempts), next_at = ?,
class = coalesce(?, class), cause = coalesce(?, cause), gap_since = coalesce(?, gap_since),
claimed_by = CASE state WHEN 'PARKED' THEN ? END, claimed_until = ? WHERE id = ?`

// store writes the item's row of the retry store.
func (a *apply) store(it *consumelog.Item, s *consumelog.Step) error {
	at := s.Place
	state := consumelog.StatusParked
	if at.Dead {
		state = consumelog.StatusDead
	}
	tried := s.Verdict == settle.VerdictParked || s.Verdict == settle.VerdictDead
	if it.RetryID != 0 {
		a.restore(at, it, state, tried, s.Verdict)
		return nil
	}
	var id any
	if at.ID != 0 {
		id = at.ID
		a.exec(deleteRetry, at.ID)
	}
	attempts := 0
	if tried {
		attempts = it.Attempt
	}
	r, e := &it.Record, eventOf(it)
	headers, err := json.Marshal(r.Headers)
	if err != nil {
		return err
	}
	a.exec(insertRetry, id, a.w.Group, it.Key, it.EventID, it.EventType, fit(e.AggregateType), it.Seq, fit(e.BizKey),
		fit(e.TraceID), state, at.Blocking, attempts, a.next(it, at), string(at.Class), prose(at.Cause), it.AcceptDuplicate, a.now, a.gap(at),
		fitTo(topicOf(it), topicWidth), r.At.Partition, r.At.Offset, r.Position, timeOrNull(r.RecordedAt), []byte(r.Key), rawOf(r), headers)
	return nil
}

// next is when the row is due. What waits behind another one has no time of its
// own and is made due when that goes; if somebody is at work on the key, that
// may be over already, so the row is looked at as soon as he is done.
func (a *apply) next(it *consumelog.Item, at *consumelog.Place) any {
	if at.NextAt.IsZero() && !at.Dead && a.busy[it.Key] {
		return a.now
	}
	return timeOrNull(at.NextAt)
}

// restore updates the row that the item came from. A follower that was looked
// at too early keeps what is known of it.
func (a *apply) restore(at *consumelog.Place, it *consumelog.Item, state string, tried bool, v settle.Verdict) {
	var attempts, class, cause any
	if tried {
		attempts = it.Attempt
	}
	if v != settle.VerdictBlocked {
		class, cause = string(at.Class), prose(at.Cause)
	}
	a.exec(updateRetry, state, attempts, a.next(it, at), class, cause, a.gap(at), a.in.s.member, a.now.Add(claimTime), it.RetryID)
}

// gap is when a gap was first seen, if it is now.
func (a *apply) gap(at *consumelog.Place) any {
	if !at.Gap {
		return nil
	}
	return a.now
}

// eventOf is the item's event, empty where it could not be understood.
func eventOf(it *consumelog.Item) *settle.Event {
	if it.Record.Event == nil {
		return &settle.Event{}
	}
	return it.Record.Event
}

// rawOf returns the record's value, made anew where the broker gave none.
func rawOf(r *settle.Record) []byte {
	if len(r.Raw) == 0 && r.Event != nil {
		return settle.AppendEnvelope(nil, r.Event)
	}
	if r.Raw == nil {
		return []byte{}
	}
	return r.Raw
}

func topicOf(it *consumelog.Item) string {
	if it.Record.At.Topic == "" && it.Record.Event != nil {
		return it.Record.Event.Topic
	}
	return it.Record.At.Topic
}

const (
	nextByID  = `SELECT id FROM t_consume_retry FORCE INDEX (i_consume_retry_key) WHERE consumer_group = ? AND aggregate_id = ? AND blocking ORDER BY id LIMIT 1`
	nextBySeq = `SELECT id FROM t_consume_retry FORCE INDEX (i_consume_retry_key) WHERE consumer_group = ? AND aggregate_id = ? AND blocking ORDER BY aggregate_seq, id LIMIT 1`

	promoteByID  = `UPDATE t_consume_retry SET next_at = ?, claimed_by = ?, claimed_until = ? WHERE id = ? AND state = 'PARKED' AND next_at IS NULL`
	promoteBySeq = `UPDATE t_consume_retry SET next_at = ?, claimed_by = ?, claimed_until = ? WHERE id = ? AND state = 'PARKED' AND (next_at IS NULL OR gap_since IS NOT NULL)`
)

// promote makes the first row that holds the key due, after the one before it
// has gone: to the member that has dealt with that, which has what follows in
// hand; to any where member is "".
func promote(db context.Context, tx *sql.Tx, group, key string, bySeq bool, member string, now time.Time) error {
	next, query := nextByID, promoteByID
	if bySeq {
		next, query = nextBySeq, promoteBySeq
	}
	var id int64
	err := tx.QueryRowContext(db, next, group, key).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		_, err = tx.ExecContext(db, query, now, orNull(member), now.Add(claimTime), id)
	}
	return err
}

// letterDue is how long a person has to decide about a dead letter.
const letterDue = 24 * time.Hour

const openLetter = `INSERT INTO t_dead_letter
(service_side, consumer_group, event_id, event_type, aggregate_type, aggregate_id, aggregate_seq, biz_key, trace_id, class, reason, attempts, state, blocking,
 opened_at, due_at, topic, ` + "`partition`, `offset`" + `, position, appended_at, recorded_at, record_key, raw, payload, headers)
VALUES ('consumer',?,?,?,?,?,?,?,?,?,?,?,'OPEN',?,?,?,?,?,?,?,?,?,?,?,?,?)
ON DUPLICATE KEY UPDATE class = CASE WHEN state = 'COMPENSATING' AND class = 'beyond_dedup_window' THEN class ELSE VALUES(class) END,
reason = VALUES(reason), attempts = VALUES(attempts), state = 'OPEN', blocking = VALUES(blocking), opened_at = VALUES(opened_at), due_at = VALUES(due_at),
closed_at = NULL, closed_by = ''`

// openLetter opens the item's dead letter; one that was replayed and died
// again opens anew under its id. A compensation that failed makes no event
// younger: to replay one beyond the dedup window still takes a person's word.
func (a *apply) openLetter(it *consumelog.Item, l *consumelog.Letter) error {
	r, e := &it.Record, eventOf(it)
	headers, err := json.Marshal(r.Headers)
	if err != nil {
		return err
	}
	a.exec(openLetter, a.w.Group, it.EventID, it.EventType, fit(e.AggregateType), it.Key, it.Seq, fit(e.BizKey), fit(e.TraceID),
		string(l.Class), prose(l.Cause), it.Attempt, l.Blocking, a.now, a.now.Add(letterDue),
		fitTo(topicOf(it), topicWidth), r.At.Partition, r.At.Offset, r.Position, timeOrNull(it.Appended), timeOrNull(r.RecordedAt), []byte(r.Key), rawOf(r), []byte(e.Payload), headers)
	return nil
}

const endLetter = `UPDATE t_dead_letter SET state = ?, closed_at = ?,
closed_by = CASE WHEN ? <> '' THEN ? WHEN acted_by <> '' THEN acted_by ELSE 'settle' END
WHERE consumer_group = ? AND event_id = ? AND destination = '' AND state IN ('OPEN', 'REPLAYING', 'COMPENSATING')`

// closeLetter ends the dead letter of an event that has left the retry store,
// in the transaction that made its effect.
func (a *apply) closeLetter(c consumelog.Closing, by string) {
	who := ""
	if c.State == govern.StateSuperseded {
		who = fit("event " + by)
	}
	a.exec(endLetter, c.State, a.now, who, who, a.w.Group, c.EventID)
}
