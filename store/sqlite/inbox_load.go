package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/consumelog"
)

const readGroup = `SELECT coalesce((SELECT dedup_floor FROM t_consume_floor WHERE consumer_group = ?1), 0),
EXISTS (SELECT 1 FROM t_consume_retry WHERE consumer_group = ?1)`

// load reads what the plan needs. For a batch of new events in a group where
// nothing waits that is one row; the floor is read after the inserts, so that
// a Forget that ran between delivery and insert is seen.
func (a *apply) load(db context.Context, allFresh bool) (consumelog.Facts, error) {
	f := consumelog.NewFacts(a.now)
	f.AllFresh = allFresh
	var floor int64
	var waiting bool
	if err := a.tx.QueryRowContext(db, readGroup, a.w.Group).Scan(&floor, &waiting); err != nil {
		return f, fmt.Errorf("read dedup floor of group %s: %w", a.w.Group, err)
	}
	if floor > 0 {
		f.Floor = time.UnixMicro(floor)
	}
	for _, read := range []struct {
		needed bool
		f      func(context.Context, *consumelog.Facts) error
	}{
		{waiting, a.loadRetries},
		{!allFresh, a.loadLineages},
		{!allFresh, a.loadLog},
		{!allFresh, a.loadEffects},
		{waiting && !a.w.Pass, a.loadBlockers},
		{a.w.OrderedBySeq, a.loadSeqs},
	} {
		if !read.needed {
			continue
		}
		if err := read.f(db, &f); err != nil {
			return f, fmt.Errorf("read state of group %s: %w", a.w.Group, err)
		}
	}
	return f, nil
}

const readLog = `SELECT event_id, processed_no, status, processed_at FROM t_message_consume_log
WHERE consumer_group = ? AND event_id IN (SELECT value FROM json_each(?))`

func (a *apply) loadLog(db context.Context, f *consumelog.Facts) error {
	var ids []string
	for i := range a.items {
		it := &a.items[i]
		ids = append(ids, it.EventID)
		if it.Supersedes != "" {
			ids = append(ids, it.Supersedes, it.Root)
		}
		for _, m := range f.Lineages[it.Root] {
			ids = append(ids, m.EventID)
		}
	}
	return each(db, a.tx, func(rows *sql.Rows) error {
		var id string
		var r consumelog.LogRow
		var processed int64
		if err := rows.Scan(&id, &r.No, &r.Status, &processed); err != nil {
			return err
		}
		r.Processed = time.UnixMicro(processed)
		f.Logged[id] = r
		return nil
	}, readLog, a.w.Group, list(ids))
}

const readRoots = `SELECT event_id, root_id FROM t_message_consume_log
WHERE consumer_group = ? AND root_id IS NOT NULL AND event_id IN (SELECT value FROM json_each(?))`

const readLineages = `SELECT l.root_id, l.event_id, coalesce(r.id, 0) FROM t_message_consume_log l
LEFT JOIN t_consume_retry r ON r.consumer_group = l.consumer_group AND r.event_id = l.event_id
WHERE l.consumer_group = ?1 AND l.root_id IN (SELECT value FROM json_each(?2))
UNION SELECT e.value, e.value, coalesce(r.id, 0) FROM json_each(?2) e
LEFT JOIN t_consume_retry r ON r.consumer_group = ?1 AND r.event_id = e.value`

// loadLineages finds the first event of each edited item, and the others that
// were edited from it.
func (a *apply) loadLineages(db context.Context, f *consumelog.Facts) error {
	var from []string
	for i := range a.items {
		if s := a.items[i].Supersedes; s != "" {
			from = append(from, s)
		}
	}
	if len(from) == 0 {
		return nil
	}
	root := map[string]string{}
	err := each(db, a.tx, func(rows *sql.Rows) error {
		var id, of string
		err := rows.Scan(&id, &of)
		root[id] = of
		return err
	}, readRoots, a.w.Group, list(from))
	if err != nil {
		return err
	}
	var roots []string
	for i := range a.items {
		it := &a.items[i]
		if it.Supersedes == "" {
			continue
		}
		it.Root = it.Supersedes
		if of, ok := root[it.Supersedes]; ok {
			it.Root = of
		}
		root[it.EventID] = it.Root
		roots = append(roots, it.Root)
	}
	return each(db, a.tx, func(rows *sql.Rows) error {
		var of string
		var m consumelog.Member
		err := rows.Scan(&of, &m.EventID, &m.RetryID)
		f.Lineages[of] = append(f.Lineages[of], m)
		return err
	}, readLineages, a.w.Group, list(roots))
}

const readEffect = `SELECT event_id FROM t_message_consume_log
WHERE consumer_group = ? AND event_type = ? AND effect_key = ?`

func (a *apply) loadEffects(db context.Context, f *consumelog.Facts) error {
	for i := range a.items {
		it := &a.items[i]
		if it.EffectKey == "" || it.Intent != settle.IntentHandle {
			continue
		}
		if row, ok := f.Logged[it.EventID]; ok && row.No == it.No {
			continue
		}
		err := each(db, a.tx, func(rows *sql.Rows) error {
			var holder string
			err := rows.Scan(&holder)
			f.Effects[consumelog.EffectKey{EventType: it.EventType, Key: it.EffectKey}] = holder
			return err
		}, readEffect, a.w.Group, it.EventType, it.EffectKey)
		if err != nil {
			return err
		}
	}
	return nil
}

const readRetries = `SELECT id, event_id, state = 'DEAD', blocking, replays, gap_since, compensate FROM t_consume_retry
WHERE consumer_group = ? AND id IN (SELECT value FROM json_each(?))`

func (a *apply) loadRetries(db context.Context, f *consumelog.Facts) error {
	var ids []int64
	for i := range a.items {
		if id := a.items[i].RetryID; id != 0 {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	err := each(db, a.tx, func(rows *sql.Rows) error {
		var id int64
		var gap sql.NullInt64
		var compensate sql.NullString
		var r consumelog.RetryRow
		if err := rows.Scan(&id, &r.EventID, &r.Dead, &r.Blocking, &r.Replays, &gap, &compensate); err != nil {
			return err
		}
		r.GapSince, r.Compensate = when(gap), compensate.String
		f.Retries[id] = r
		return nil
	}, readRetries, a.w.Group, list(ids))
	for i := range a.items {
		// A stored record that can't be read any more is still known by its row.
		if it := &a.items[i]; it.Record.Event == nil && f.Retries[it.RetryID].EventID != "" {
			it.EventID = f.Retries[it.RetryID].EventID
		}
	}
	return err
}

const readBlocked = `SELECT k.value FROM json_each(?2) k WHERE EXISTS (
  SELECT 1 FROM t_consume_retry WHERE consumer_group = ?1 AND aggregate_id = k.value AND blocking = 1)`

const readHeadsByID = `SELECT id, aggregate_seq FROM t_consume_retry
WHERE consumer_group = ? AND aggregate_id = ? AND blocking = 1 ORDER BY id LIMIT ?`

const readHeadsBySeq = `SELECT id, aggregate_seq FROM t_consume_retry
WHERE consumer_group = ? AND aggregate_id = ? AND blocking = 1 ORDER BY aggregate_seq, id LIMIT ?`

// loadBlockers reads, for each key that something holds, one row more than
// the items of that key can remove.
func (a *apply) loadBlockers(db context.Context, f *consumelog.Facts) error {
	removable := map[string]int{}
	var keys, blocked []string
	for i := range a.items {
		it := &a.items[i]
		if _, seen := removable[it.Key]; !seen {
			keys = append(keys, it.Key)
		}
		removable[it.Key]++
	}
	err := each(db, a.tx, func(rows *sql.Rows) error {
		var key string
		err := rows.Scan(&key)
		blocked = append(blocked, key)
		return err
	}, readBlocked, a.w.Group, list(keys))
	if err != nil {
		return err
	}
	query := readHeadsByID
	if a.w.OrderedBySeq {
		query = readHeadsBySeq
	}
	for _, key := range blocked {
		err := each(db, a.tx, func(rows *sql.Rows) error {
			var b consumelog.Blocker
			err := rows.Scan(&b.ID, &b.Seq)
			f.Blockers[key] = append(f.Blockers[key], b)
			return err
		}, query, a.w.Group, key, removable[key]+1)
		if err != nil {
			return err
		}
	}
	return nil
}

const readSeq = `SELECT last_seq FROM t_consume_seq WHERE consumer_group = ? AND aggregate_type = ? AND aggregate_id = ?`

const readPassed = `SELECT aggregate_seq FROM t_message_consume_log
WHERE aggregate_id = ? AND consumer_group = ? AND status = 'DISCARDED' AND aggregate_seq > ?`

// loadSeqs reads how far each aggregate has come, and what people discarded
// above that where an item seems to have a gap before it.
func (a *apply) loadSeqs(db context.Context, f *consumelog.Facts) error {
	next := map[consumelog.SeqKey]int64{}
	for i := range a.items {
		it := &a.items[i]
		k := it.Aggregate()
		if it.Seq == 0 {
			continue
		}
		if _, seen := next[k]; !seen {
			var last int64
			err := a.tx.QueryRowContext(db, readSeq, a.w.Group, k.AggregateType, k.AggregateID).Scan(&last)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			if err == nil {
				f.Seqs[k] = last
			}
			next[k] = last + 1
		}
		last, begun := f.Seqs[k]
		if begun && it.Seq > next[k] && f.Passed[k] == nil {
			if err := a.loadPassed(db, f, k, last); err != nil {
				return err
			}
		}
		next[k] = max(next[k], it.Seq+1)
	}
	return nil
}

func (a *apply) loadPassed(db context.Context, f *consumelog.Facts, k consumelog.SeqKey, last int64) error {
	f.Passed[k] = map[int64]bool{}
	return each(db, a.tx, func(rows *sql.Rows) error {
		var n int64
		err := rows.Scan(&n)
		f.Passed[k][n] = true
		return err
	}, readPassed, k.AggregateID, a.w.Group, last)
}
