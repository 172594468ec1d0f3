package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/consumelog"
)

// A role whose commits are not flushed by default would have what it
// acknowledges lost by a crash.
const applySettings = `SELECT set_config('lock_timeout', $1, true),
 set_config('synchronous_commit', CASE WHEN $2 THEN 'off' WHEN current_setting('synchronous_commit') = 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true)`

func (s *Store) applySettings(how manner) []any {
	return []any{ms(s.cfg.LockTimeout), how == piecemeal}
}

// The order makes it one seek where other groups have much that waits.
const readGroup = `SELECT coalesce($1::timestamptz, clock_timestamp()), (SELECT dedup_floor FROM t_consume_floor WHERE consumer_group = $2),
 (SELECT id FROM t_consume_retry WHERE consumer_group = $2 ORDER BY consumer_group, aggregate_id, id LIMIT 1) IS NOT NULL`

// load records the new events and reads what the plan needs. For a batch of
// new events in a group where nothing waits that is one round trip; the floor
// is read after the inserts, so that a Forget that ran between delivery and
// insert is seen.
func (a *apply) load(db context.Context) (consumelog.Facts, error) {
	a.number()
	owned := newOwnership(a.w)
	rec := newRecord(a)
	var floor pgtype.Timestamptz
	var waiting bool
	var b pgx.Batch
	b.Queue(applySettings, a.in.s.applySettings(a.how)...)
	owned.queue(&b)
	if a.shared != nil {
		a.shared.queueClaims(&b, a)
	}
	rec.queue(&b)
	b.Queue(readGroup, a.in.s.clock(), a.w.Group).QueryRow(func(row pgx.Row) error { return row.Scan(&a.now, &floor, &waiting) })
	if err := a.conn.SendBatch(db, &b).Close(); err != nil {
		return consumelog.Facts{}, fmt.Errorf("record events of group %s: %w", a.w.Group, err)
	}
	if err := owned.check(); err != nil {
		return consumelog.Facts{}, err
	}
	f := consumelog.NewFacts(a.now)
	f.AllFresh, a.own = rec.all() && (a.shared == nil || a.shared.AllClaimed(a.items)), rec.inserted
	if floor.Valid {
		f.Floor = instant(floor)
	}
	for id, row := range rec.rows(a.now) {
		f.Logged[id], a.known[id] = row, true
	}
	if !waiting && f.AllFresh && !a.w.OrderedBySeq {
		return f, nil
	}
	if err := a.loadMore(db, &f, waiting); err != nil {
		return f, fmt.Errorf("read state of group %s: %w", a.w.Group, err)
	}
	return f, nil
}

// loadMore reads what is only needed where something waits, or was seen before.
// What is decided upon is locked first and read after: a row that another
// transaction has in hand is waited for.
func (a *apply) loadMore(db context.Context, f *consumelog.Facts, waiting bool) error {
	if err := a.loadRoots(db); err != nil {
		return err
	}
	var b pgx.Batch
	if waiting {
		a.queueKeys(&b)
		a.queueRetries(&b, f)
	}
	if !f.AllFresh {
		a.queueLineages(&b, f)
	}
	if err := a.conn.SendBatch(db, &b).Close(); err != nil {
		return err
	}
	a.settleRetries(f)
	b = pgx.Batch{}
	if !f.AllFresh {
		a.queueLog(&b, f)
		if a.shared != nil {
			a.shared.queueRead(&b, a, f)
		}
		a.queueEffects(&b, f)
	}
	if waiting && !a.w.Pass {
		a.queueBlockers(&b, f)
	}
	if a.w.OrderedBySeq {
		a.queueSeqs(&b, f)
	}
	if err := a.conn.SendBatch(db, &b).Close(); err != nil {
		return err
	}
	if a.shared != nil {
		a.shared.Merge(a.items, a.own, f)
	}
	return a.loadPassed(db, f)
}

// number orders the items of this transaction behind all that was recorded.
func (a *apply) number() {
	a.items = make([]consumelog.Item, len(a.w.Items))
	for i := range a.w.Items {
		it := consumelog.NewItem(&a.w.Items[i], firstNumber+int64(i)).Fit(fit)
		it.EventType = clean(it.EventType)
		a.items[i] = it
	}
}

// firstNumber is above every processed_no that the database gives.
const firstNumber = int64(1) << 62

// keyLock is a number for a key of a group in this schema. Two that share one
// are in each other's way, no more.
const keyLock = `hashtextextended(current_schema() || ' ' || $1 || ' ' || k.key, 0)`

// lockKeys takes, of the keys that items of the retry store have and of those
// that something holds, what nobody else works on. Whoever removes a row that
// holds a key has its lock until it commits, so that nothing comes to wait
// behind a row that is about to go.
const lockKeys = `SELECT k.key FROM unnest($2::text[], $3::boolean[]) AS k(key, always)
WHERE (k.always OR EXISTS (SELECT 1 FROM t_consume_retry r WHERE r.consumer_group = $1 AND r.aggregate_id = k.key AND r.blocking))
 AND NOT pg_try_advisory_xact_lock(` + keyLock + `)`

func (a *apply) queueKeys(b *pgx.Batch) {
	keys, always := a.distinctKeys()
	b.Queue(lockKeys, a.w.Group, keys, always).Query(func(rows pgx.Rows) error {
		var key string
		_, err := pgx.ForEachRow(rows, []any{&key}, func() error {
			a.busy[key] = true
			return nil
		})
		return err
	})
}

// distinctKeys returns the keys of the items, and which of them have an item of
// the retry store.
func (a *apply) distinctKeys() (keys []string, retried []bool) {
	at := map[string]int{}
	for i := range a.items {
		it := &a.items[i]
		n, seen := at[it.Key]
		if !seen {
			n = len(keys)
			at[it.Key] = n
			keys, retried = append(keys, it.Key), append(retried, false)
		}
		retried[n] = retried[n] || it.RetryID != 0
	}
	return keys, retried
}

// What another member was given since is his.
const readRetries = `SELECT id, event_id, state = 'DEAD', blocking, replays, gap_since, coalesce(compensate, '') FROM t_consume_retry
WHERE consumer_group = $1 AND id = ANY($2) AND (claimed_by IS NULL OR claimed_by = $3)`

func (a *apply) queueRetries(b *pgx.Batch, f *consumelog.Facts) {
	var ids []int64
	for i := range a.items {
		if id := a.items[i].RetryID; id != 0 {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return
	}
	b.Queue(readRetries, a.w.Group, ids, a.in.s.member).Query(func(rows pgx.Rows) error {
		var id int64
		var gap pgtype.Timestamptz
		var r consumelog.RetryRow
		_, err := pgx.ForEachRow(rows, []any{&id, &r.EventID, &r.Dead, &r.Blocking, &r.Replays, &gap, &r.Compensate}, func() error {
			r.GapSince = instant(gap)
			f.Retries[id] = r
			return nil
		})
		return err
	})
}

// settleRetries leaves keys that somebody else works on to him: what waits
// there counts as stored.
func (a *apply) settleRetries(f *consumelog.Facts) {
	for i := range a.items {
		it := &a.items[i]
		if it.RetryID == 0 {
			continue
		}
		if a.busy[it.Key] {
			delete(f.Retries, it.RetryID)
		}
		// A stored record that can't be read any more is still known by its row.
		if row, ok := f.Retries[it.RetryID]; ok && it.Record.Event == nil {
			it.EventID = row.EventID
		}
	}
}

const lockLog = `SELECT 1 FROM t_message_consume_log
WHERE consumer_group = $1 AND event_id = ANY($2) AND status NOT IN ('APPLIED', 'SUCCESS', 'REJECTED', 'DUPLICATE', 'COMPENSATED') ORDER BY event_id FOR UPDATE`

const readLog = `SELECT event_id, processed_no, status, processed_at FROM t_message_consume_log
WHERE consumer_group = $1 AND event_id = ANY($2)`

// queueLog reads the log rows that were there before. Those that may still
// change are locked first: a foreign consumer may be about to end what we are
// about to take over, and another process to handle what an edited event
// stands in for.
func (a *apply) queueLog(b *pgx.Batch, f *consumelog.Facts) {
	var ids []string
	for _, id := range a.related(f) {
		if _, inserted := f.Logged[id]; !inserted {
			ids = append(ids, id)
		}
	}
	b.Queue(lockLog, a.w.Group, ids)
	b.Queue(readLog, a.w.Group, ids).Query(func(rows pgx.Rows) error {
		var id string
		var r consumelog.LogRow
		var processed pgtype.Timestamptz
		_, err := pgx.ForEachRow(rows, []any{&id, &r.No, &r.Status, &processed}, func() error {
			r.Processed = instant(processed)
			if _, inserted := f.Logged[id]; !inserted {
				f.Logged[id], a.known[id] = r, true
			}
			return nil
		})
		return err
	})
}

// related are the events of the items and of their lineages.
func (a *apply) related(f *consumelog.Facts) []string {
	var ids []string
	for i := range a.items {
		it := &a.items[i]
		if it.RetryID != 0 && a.busy[it.Key] {
			continue // to be left alone, and not to be waited for
		}
		ids = append(ids, it.EventID)
		if it.Supersedes != "" {
			ids = append(ids, it.Supersedes, it.Root)
		}
		for _, m := range f.Lineages[it.Root] {
			ids = append(ids, m.EventID)
		}
	}
	return ids
}

const readEffects = `SELECT l.event_type, l.effect_key, l.event_id FROM unnest($2::text[], $3::text[]) AS k(event_type, effect_key)
JOIN t_message_consume_log l ON l.consumer_group = $1 AND l.event_type = k.event_type AND l.effect_key = k.effect_key`

func (a *apply) queueEffects(b *pgx.Batch, f *consumelog.Facts) {
	var types, keys []string
	for i := range a.items {
		it := &a.items[i]
		if row, ok := f.Logged[it.EventID]; it.EffectKey != "" && it.Intent == settle.IntentHandle && !(ok && row.No == it.No) {
			types, keys = append(types, it.EventType), append(keys, it.EffectKey)
		}
	}
	if len(keys) == 0 {
		return
	}
	b.Queue(readEffects, a.w.Group, types, keys).Query(func(rows pgx.Rows) error {
		var k consumelog.EffectKey
		var holder string
		_, err := pgx.ForEachRow(rows, []any{&k.EventType, &k.Key, &holder}, func() error {
			f.Effects[k] = holder
			return nil
		})
		return err
	})
}
