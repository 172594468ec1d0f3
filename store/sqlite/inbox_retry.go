package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/consumelog"
)

const deleteRetry = `DELETE FROM t_consume_retry WHERE id = ?`

const insertRetry = `INSERT INTO t_consume_retry
(id, consumer_group, aggregate_id, event_id, event_type, aggregate_type, aggregate_seq, biz_key, trace_id, state, blocking, attempts,
 next_at, class, cause, accept_duplicate, parked_at, gap_since, topic, partition, offset, position, recorded_at, record_key, raw, headers)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
ON CONFLICT (consumer_group, event_id) DO NOTHING`

const updateRetry = `UPDATE t_consume_retry SET state = ?, attempts = coalesce(?, attempts), next_at = ?,
class = coalesce(?, class), cause = coalesce(?, cause), gap_since = coalesce(?, gap_since) WHERE id = ?`

// store writes the item's row of the retry store.
func (a *apply) store(db context.Context, it *consumelog.Item, s *consumelog.Step) error {
	at := s.Place
	state := consumelog.StatusParked
	if at.Dead {
		state = consumelog.StatusDead
	}
	tried := s.Verdict == settle.VerdictParked || s.Verdict == settle.VerdictDead
	if it.RetryID != 0 {
		return a.restore(db, at, it, state, tried, s.Verdict)
	}
	id := sql.NullInt64{Int64: at.ID, Valid: at.ID != 0}
	if id.Valid {
		if _, err := a.tx.ExecContext(db, deleteRetry, at.ID); err != nil {
			return err
		}
	}
	attempts := 0
	if tried {
		attempts = it.Attempt
	}
	r, e := &it.Record, it.Record.Event
	if e == nil {
		e = &settle.Event{}
	}
	headers, err := json.Marshal(r.Headers)
	if err != nil {
		return err
	}
	_, err = a.tx.ExecContext(db, insertRetry, id, a.w.Group, it.Key, it.EventID, it.EventType, e.AggregateType, it.Seq, e.BizKey,
		e.TraceID, state, at.Blocking, attempts, micros(at.NextAt), string(at.Class), at.Cause, it.AcceptDuplicate, a.now.UnixMicro(), a.gap(at),
		topicOf(it), r.At.Partition, r.At.Offset, r.Position, micros(r.RecordedAt), r.Key, rawOf(r), string(headers))
	return err
}

// restore updates the row that the item came from. A follower that was looked
// at too early keeps what is known of it.
func (a *apply) restore(db context.Context, at *consumelog.Place, it *consumelog.Item, state string, tried bool, v settle.Verdict) error {
	var attempts sql.NullInt64
	if tried {
		attempts = sql.NullInt64{Int64: int64(it.Attempt), Valid: true}
	}
	var class, cause any
	if v != settle.VerdictBlocked {
		class, cause = string(at.Class), at.Cause
	}
	_, err := a.tx.ExecContext(db, updateRetry, state, attempts, micros(at.NextAt), class, cause, a.gap(at), it.RetryID)
	return err
}

// gap is when a gap was first seen, if it is now.
func (a *apply) gap(at *consumelog.Place) any {
	if !at.Gap {
		return nil
	}
	return a.now.UnixMicro()
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

const promoteByID = `UPDATE t_consume_retry SET next_at = ?1 WHERE id = (
  SELECT id FROM t_consume_retry WHERE consumer_group = ?2 AND aggregate_id = ?3 AND blocking = 1 ORDER BY id LIMIT 1)
AND state = 'PARKED' AND next_at IS NULL`

const promoteBySeq = `UPDATE t_consume_retry SET next_at = ?1 WHERE id = (
  SELECT id FROM t_consume_retry WHERE consumer_group = ?2 AND aggregate_id = ?3 AND blocking = 1 ORDER BY aggregate_seq, id LIMIT 1)
AND state = 'PARKED' AND (next_at IS NULL OR gap_since IS NOT NULL)`

// promote makes the first row that holds the key due, after the one before it
// has gone.
func promote(db context.Context, tx *sql.Tx, group, key string, bySeq bool, now time.Time) error {
	query := promoteByID
	if bySeq {
		query = promoteBySeq
	}
	if _, err := tx.ExecContext(db, query, now.UnixMicro(), group, key); err != nil {
		return fmt.Errorf("make the next event of key %s due: %w", key, err)
	}
	return nil
}

// letterDue is how long a person has to decide about a dead letter.
const letterDue = 24 * time.Hour

const openLetter = `INSERT INTO t_dead_letter
(service_side, consumer_group, event_id, event_type, aggregate_type, aggregate_id, aggregate_seq, biz_key, trace_id, class, reason, attempts, state, blocking,
 opened_at, due_at, topic, partition, offset, position, appended_at, recorded_at, record_key, raw, payload, headers)
VALUES ('consumer',?,?,?,?,?,?,?,?,?,?,?,'OPEN',?,?,?,?,?,?,?,?,?,?,?,?,?)
ON CONFLICT (consumer_group, event_id, destination) DO UPDATE SET
class = CASE WHEN state = 'COMPENSATING' AND class = 'beyond_dedup_window' THEN class ELSE excluded.class END, reason = excluded.reason, attempts = excluded.attempts, state = 'OPEN', blocking = excluded.blocking,
opened_at = excluded.opened_at, due_at = excluded.due_at, closed_at = NULL, closed_by = ''`

// openLetter opens the item's dead letter; one that was replayed and died
// again opens anew under its id. A compensation that failed makes no event
// younger: to replay one beyond the dedup window still takes a person's word.
func (a *apply) openLetter(db context.Context, it *consumelog.Item, l *consumelog.Letter) error {
	r, e := &it.Record, it.Record.Event
	if e == nil {
		e = &settle.Event{}
	}
	headers, err := json.Marshal(r.Headers)
	if err != nil {
		return err
	}
	_, err = a.tx.ExecContext(db, openLetter, a.w.Group, it.EventID, it.EventType, e.AggregateType, it.Key, it.Seq, e.BizKey, e.TraceID,
		string(l.Class), l.Cause, it.Attempt, l.Blocking, a.now.UnixMicro(), a.now.Add(letterDue).UnixMicro(),
		topicOf(it), r.At.Partition, r.At.Offset, r.Position, micros(it.Appended), micros(r.RecordedAt), r.Key, rawOf(r), e.Payload, string(headers))
	return err
}

const endLetter = `UPDATE t_dead_letter SET state = ?, closed_at = ?, closed_by = CASE WHEN ? <> '' THEN ? WHEN acted_by <> '' THEN acted_by ELSE 'settle' END
WHERE consumer_group = ? AND event_id = ? AND destination = '' AND state IN ('OPEN', 'REPLAYING', 'COMPENSATING')`

// closeLetter ends the dead letter of an event that has left the retry store,
// in the transaction that made its effect.
func closeLetter(db context.Context, tx *sql.Tx, group string, c consumelog.Closing, by string, now time.Time) error {
	who := ""
	if c.State == govern.StateSuperseded {
		who = "event " + by
	}
	_, err := tx.ExecContext(db, endLetter, c.State, now.UnixMicro(), who, who, group, c.EventID)
	return err
}
