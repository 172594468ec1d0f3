package postgres

import (
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/store/consumelog"
)

const deleteRetry = `DELETE FROM t_consume_retry WHERE id = $1`

const insertRetry = `INSERT INTO t_consume_retry
(id, consumer_group, aggregate_id, event_id, event_type, aggregate_type, aggregate_seq, biz_key, trace_id, state, blocking, attempts,
 next_at, class, cause, accept_duplicate, parked_at, gap_since, topic, partition, "offset", position, recorded_at, record_key, raw, headers)
VALUES (coalesce($1::bigint, nextval(pg_get_serial_sequence('t_consume_retry', 'id'))),$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19,$20,$21,$22,$23,$24,$25,$26)
ON CONFLICT (consumer_group, event_id) DO NOTHING`

const updateRetry = `UPDATE t_consume_retry SET state = $1, attempts = coalesce($2, attempts), next_at = $3,
class = coalesce($4, class), cause = coalesce($5, cause), gap_since = coalesce($6, gap_since),
claimed_by = CASE $1 WHEN 'PARKED' THEN $8 END, claimed_until = $9 WHERE id = $7`

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
	var id *int64
	if at.ID != 0 {
		id = &at.ID
		a.later.Queue(deleteRetry, at.ID)
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
	a.later.Queue(insertRetry, id, a.w.Group, it.Key, it.EventID, it.EventType, clean(e.AggregateType), it.Seq, fit(e.BizKey),
		fit(e.TraceID), state, at.Blocking, attempts, a.next(it, at), string(at.Class), clean(at.Cause), it.AcceptDuplicate, a.now, a.gap(at),
		clean(topicOf(it)), r.At.Partition, r.At.Offset, r.Position, nullable(r.RecordedAt), []byte(r.Key), rawOf(r), headers)
	return nil
}

// next is when the row is due. What waits behind another one has no time of its
// own and is made due when that goes; if somebody is at work on the key, that
// may be over already, so the row is looked at as soon as he is done.
func (a *apply) next(it *consumelog.Item, at *consumelog.Place) *time.Time {
	if at.NextAt.IsZero() && !at.Dead && a.busy[it.Key] {
		return &a.now
	}
	return nullable(at.NextAt)
}

// restore updates the row that the item came from. A follower that was looked
// at too early keeps what is known of it.
func (a *apply) restore(at *consumelog.Place, it *consumelog.Item, state string, tried bool, v settle.Verdict) {
	var attempts *int
	if tried {
		attempts = &it.Attempt
	}
	var class, cause *string
	if v != settle.VerdictBlocked {
		c, text := string(at.Class), clean(at.Cause)
		class, cause = &c, &text
	}
	a.later.Queue(updateRetry, state, attempts, a.next(it, at), class, cause, a.gap(at), it.RetryID, a.in.s.member, a.now.Add(claimTime))
}

// gap is when a gap was first seen, if it is now.
func (a *apply) gap(at *consumelog.Place) *time.Time {
	if !at.Gap {
		return nil
	}
	return &a.now
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
	promoteFirst = `UPDATE t_consume_retry SET next_at = ` + databaseNow + `, claimed_by = $4, claimed_until = ` + databaseNow + ` + $5::bigint * interval '1 microsecond' WHERE id = (
  SELECT id FROM t_consume_retry WHERE consumer_group = $2 AND aggregate_id = $3 AND blocking ORDER BY `
	promoteByID  = promoteFirst + `id LIMIT 1) AND state = 'PARKED' AND next_at IS NULL`
	promoteBySeq = promoteFirst + `aggregate_seq, id LIMIT 1) AND state = 'PARKED' AND (next_at IS NULL OR gap_since IS NOT NULL)`
)

// promote makes the first row that holds the key due, after the one before it
// has gone: to the member that has dealt with that, which has what follows in
// hand; to any where member is nil.
func promote(b *pgx.Batch, group, key string, bySeq bool, member *string, now any) {
	query := promoteByID
	if bySeq {
		query = promoteBySeq
	}
	b.Queue(query, now, group, key, member, claimTime.Microseconds())
}

// letterDue is how long a person has to decide about a dead letter.
const letterDue = 24 * time.Hour

const openLetter = `INSERT INTO t_dead_letter AS d
(service_side, consumer_group, event_id, event_type, aggregate_type, aggregate_id, aggregate_seq, biz_key, trace_id, class, reason, attempts, state, blocking,
 opened_at, due_at, topic, partition, "offset", position, appended_at, recorded_at, record_key, raw, payload, headers)
VALUES ('consumer',$1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,'OPEN',$12,$13,$14,$15,$16,$17,$18,$19,$20,$21,$22,$23,$24)
ON CONFLICT (consumer_group, event_id, destination) DO UPDATE SET
class = CASE WHEN d.state = 'COMPENSATING' AND d.class = 'beyond_dedup_window' THEN d.class ELSE excluded.class END, reason = excluded.reason,
attempts = excluded.attempts, state = 'OPEN', blocking = excluded.blocking, opened_at = excluded.opened_at, due_at = excluded.due_at, closed_at = NULL, closed_by = ''`

// openLetter opens the item's dead letter; one that was replayed and died
// again opens anew under its id. A compensation that failed makes no event
// younger: to replay one beyond the dedup window still takes a person's word.
func (a *apply) openLetter(it *consumelog.Item, l *consumelog.Letter) error {
	r, e := &it.Record, eventOf(it)
	headers, err := json.Marshal(r.Headers)
	if err != nil {
		return err
	}
	a.later.Queue(openLetter, a.w.Group, it.EventID, it.EventType, clean(e.AggregateType), it.Key, it.Seq, fit(e.BizKey), fit(e.TraceID),
		string(l.Class), clean(l.Cause), it.Attempt, l.Blocking, a.now, a.now.Add(letterDue),
		clean(topicOf(it)), r.At.Partition, r.At.Offset, r.Position, nullable(it.Appended), nullable(r.RecordedAt), []byte(r.Key), rawOf(r), []byte(e.Payload), headers)
	return nil
}

const endLetter = `UPDATE t_dead_letter SET state = $2, closed_at = ` + databaseNow + `,
closed_by = CASE WHEN $3 <> '' THEN $3 WHEN acted_by <> '' THEN acted_by ELSE 'settle' END
WHERE consumer_group = $4 AND event_id = $5 AND destination = '' AND state IN ('OPEN', 'REPLAYING', 'COMPENSATING')`

// closeLetter ends the dead letter of an event that has left the retry store,
// in the transaction that made its effect.
func closeLetter(b *pgx.Batch, group string, c consumelog.Closing, by string, now any) {
	who := ""
	if c.State == govern.StateSuperseded {
		who = "event " + by
	}
	b.Queue(endLetter, now, c.State, who, group, c.EventID)
}
