package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/consumelog"
)

// record inserts the log rows of all new items, in order, as if each would end
// the way its intent says. The first of two with one event id gets the row.
type record struct {
	a     *apply
	items []*consumelog.Item
	// inserted are the events whose row this transaction has made.
	inserted map[string]bool
	rowsMade int

	eventIDs, types, keys, effects, statuses []*string
	seqs                                     []int64
	attempts                                 []int32
	hashes                                   []*int64
	appended                                 []*time.Time
}

func newRecord(a *apply) *record {
	r := &record{a: a, inserted: map[string]bool{}}
	for i := range a.items {
		if it := &a.items[i]; recordable(it) {
			r.add(it)
		}
	}
	return r
}

// recordable reports whether a log row is inserted for the item before
// anything else is known of it.
func recordable(it *consumelog.Item) bool {
	return it.RetryID == 0 && it.Intent != settle.IntentIgnore && it.Supersedes == ""
}

func (r *record) add(it *consumelog.Item) {
	status := intended(it)
	var effect *string
	if it.Intent == settle.IntentHandle && it.EffectKey != "" {
		effect = &it.EffectKey
	}
	r.items = append(r.items, it)
	r.eventIDs, r.types, r.keys = append(r.eventIDs, &it.EventID), append(r.types, &it.EventType), append(r.keys, &it.Key)
	r.effects, r.statuses = append(r.effects, effect), append(r.statuses, &status)
	r.seqs, r.attempts = append(r.seqs, it.Seq), append(r.attempts, int32(it.Attempt))
	r.hashes, r.appended = append(r.hashes, hashOf(it)), append(r.appended, nullable(it.Appended))
}

// intended is the status that the item gets if all goes as it is meant to.
func intended(it *consumelog.Item) string {
	switch it.Intent {
	case settle.IntentPark:
		return consumelog.StatusParked
	case settle.IntentDie:
		return consumelog.StatusDead
	}
	return consumelog.StatusApplied
}

func hashOf(it *consumelog.Item) *int64 {
	if it.Record.Event == nil {
		return nil
	}
	h := consumelog.PayloadHash(it.Record.Event.Payload)
	return &h
}

// nullable is t as a nullable column takes it.
func nullable(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

const insertLog = `INSERT INTO t_message_consume_log
(consumer_group, event_id, event_type, aggregate_id, aggregate_seq, effect_key, status, attempts, payload_hash, appended_at, processed_at)
SELECT $2, i.event_id, i.event_type, i.aggregate_id, i.aggregate_seq, i.effect_key, i.status, i.attempts, i.payload_hash, i.appended_at, ` + databaseNow + `
FROM unnest($3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[], $9::integer[], $10::bigint[], $11::timestamptz[])
 WITH ORDINALITY AS i(event_id, event_type, aggregate_id, aggregate_seq, effect_key, status, attempts, payload_hash, appended_at, n)
ORDER BY i.n ON CONFLICT DO NOTHING RETURNING event_id`

func (r *record) queue(b *pgx.Batch) {
	if len(r.items) == 0 {
		return
	}
	q := b.Queue(insertLog, r.a.in.s.clock(), r.a.w.Group, r.eventIDs, r.types, r.keys, r.seqs, r.effects, r.statuses, r.attempts, r.hashes, r.appended)
	q.Query(func(rows pgx.Rows) error {
		var id string
		_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
			r.inserted[id] = true
			r.rowsMade++
			return nil
		})
		return err
	})
}

// all reports whether every item got its row.
func (r *record) all() bool { return r.rowsMade == len(r.a.items) }

// rows returns the rows that were inserted, where not every item has one.
func (r *record) rows(now time.Time) map[string]consumelog.LogRow {
	rows := map[string]consumelog.LogRow{}
	for _, it := range r.items {
		if _, before := rows[it.EventID]; !before && r.inserted[it.EventID] {
			rows[it.EventID] = consumelog.LogRow{No: it.No, Status: intended(it), Processed: now}
		}
	}
	return rows
}

const (
	// A row that was not there when it was looked for has been made by another
	// transaction since.
	newLog = `INSERT INTO t_message_consume_log
(consumer_group, event_id, event_type, aggregate_id, aggregate_seq, effect_key, status, attempts, payload_hash, appended_at, processed_at, root_id, reason)
VALUES ($2,$3,$4,$5,$6,$7,$8,$9,$10,$11,` + databaseNow + `,$12,$13) ON CONFLICT DO NOTHING`

	changeLog = `UPDATE t_message_consume_log SET processed_no = DEFAULT, effect_key = $4, status = $5, attempts = $6,
processed_at = ` + databaseNow + `, root_id = coalesce($7, root_id), reason = $8 WHERE consumer_group = $2 AND event_id = $3`

	deleteLog = `DELETE FROM t_message_consume_log WHERE consumer_group = $1 AND event_id = $2`
)

// logFirst writes the log rows of a step before its handler runs: the unique
// keys must hold before the effect is made.
func (a *apply) logFirst(ctx context.Context, i int, s *consumelog.Step) error {
	var b pgx.Batch
	a.log(&b, i, s)
	if b.Len() == 0 {
		return nil
	}
	db, cancel := a.in.s.ours(ctx)
	defer cancel()
	err := a.send(db, &b)
	if hasState(err, stateUnique) {
		return errStale
	}
	return err
}

// log writes the log rows of a step: the item's own and those it supersedes.
func (a *apply) log(b *pgx.Batch, i int, s *consumelog.Step) {
	it := &a.items[i]
	if a.shared != nil {
		a.shared.tell(b, a, it, s)
	}
	if s.Forget {
		b.Queue(deleteLog, a.w.Group, it.EventID)
		return
	}
	if s.Status != "" {
		var effect *string
		if it.Intent == settle.IntentHandle && it.EffectKey != "" && s.Effect {
			effect = &it.EffectKey
		}
		root, reason := optional(it.Root), optional(clean(s.Reason))
		if a.known[it.EventID] {
			b.Queue(changeLog, a.in.s.clock(), a.w.Group, it.EventID, effect, s.Status, it.Attempt, root, reason).Exec(mustChange)
		} else {
			b.Queue(newLog, a.in.s.clock(), a.w.Group, it.EventID, it.EventType, it.Key, it.Seq, effect, s.Status, it.Attempt, hashOf(it), nullable(it.Appended), root, reason).Exec(mustChange)
		}
		a.known[it.EventID] = true
	}
	for _, id := range s.Supersede {
		a.supersede(b, it, id)
	}
}

// mustChange finds that what was decided upon is not so any more.
func mustChange(tag pgconn.CommandTag) error {
	if tag.RowsAffected() == 0 {
		return errStale
	}
	return nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

const supersedeLog = `INSERT INTO t_message_consume_log AS l
(consumer_group, event_id, event_type, aggregate_id, status, appended_at, processed_at, root_id, reason)
VALUES ($2,$3,$4,$5,'SUPERSEDED',$6,` + databaseNow + `,$7,$8)
ON CONFLICT (consumer_group, event_id) DO UPDATE SET status = excluded.status, effect_key = NULL, reason = excluded.reason
WHERE l.status NOT IN ('APPLIED', 'SUCCESS', 'REJECTED', 'DUPLICATE', 'COMPENSATED')`

// What this transaction has inserted for an item behind it has not run.
const supersedeOwn = `UPDATE t_message_consume_log SET status = 'SUPERSEDED', effect_key = NULL, reason = $3 WHERE consumer_group = $1 AND event_id = $2`

// supersede marks another event of the item's lineage, which may not have
// been seen here: should it come, it is a duplicate. One that has taken effect
// meanwhile is not marked.
func (a *apply) supersede(b *pgx.Batch, it *consumelog.Item, id string) {
	if a.own[id] {
		b.Queue(supersedeOwn, a.w.Group, id, "event "+it.EventID+" took its place")
		return
	}
	b.Queue(supersedeLog, a.in.s.clock(), a.w.Group, id, it.EventType, it.Key, nullable(it.Appended), it.Root, "event "+it.EventID+" took its place").Exec(mustChange)
	a.known[id] = true
}

const rejectLog = `UPDATE t_message_consume_log SET status = $1, reason = $2 WHERE consumer_group = $3 AND event_id = $4`

// reject records what a handler has refused, or what a compensation has found
// that it needs not do.
func (a *apply) reject(i int, s *consumelog.Step, reason string) {
	status := consumelog.StatusRejected
	if s.Status == consumelog.StatusCompensated {
		status, reason = s.Status, s.Reason+"; "+reason
	}
	a.later.Queue(rejectLog, status, clean(reason), a.w.Group, a.items[i].EventID)
}

const writeSeq = `INSERT INTO t_consume_seq AS s (consumer_group, aggregate_type, aggregate_id, last_seq) VALUES ($1,$2,$3,$4)
ON CONFLICT (consumer_group, aggregate_type, aggregate_id) DO UPDATE SET last_seq = greatest(s.last_seq, excluded.last_seq)`

// aftermath writes what a step says beside the log.
func (a *apply) aftermath(i int, s *consumelog.Step) error {
	it := &a.items[i]
	for _, id := range s.Remove {
		a.later.Queue(deleteRetry, id)
	}
	if s.Place != nil {
		if err := a.store(it, s); err != nil {
			return err
		}
	}
	if s.Letter != nil {
		if err := a.openLetter(it, s.Letter); err != nil {
			return err
		}
	}
	for _, c := range s.Closed {
		closeLetter(&a.later, a.w.Group, c, it.EventID, a.in.s.clock())
	}
	if s.Promote && !slices.Contains(a.keys, it.Key) {
		a.keys = append(a.keys, it.Key)
	}
	return nil
}
