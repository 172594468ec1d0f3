package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/consumelog"
)

const readGroup = `SELECT ` + databaseNow + `, (SELECT dedup_floor FROM t_consume_floor WHERE consumer_group = ?),
 EXISTS (SELECT 1 FROM t_consume_retry WHERE consumer_group = ?)`

// load records the new events and reads what the plan needs. The floor is read
// after the inserts, so that a Forget that ran between delivery and insert is
// seen.
func (a *apply) load(db context.Context) (consumelog.Facts, error) {
	a.order()
	if err := guard(db, a.tx, a.w); err != nil {
		return consumelog.Facts{}, err
	}
	if err := a.claimAndRecord(db); err != nil {
		return consumelog.Facts{}, fmt.Errorf("record events of group %s: %w", a.w.Group, err)
	}
	var now timeColumn
	var floor sql.NullTime
	var waiting bool
	if err := a.tx.QueryRowContext(db, readGroup, a.in.s.clock(), a.w.Group, a.w.Group).Scan(&now, &floor, &waiting); err != nil {
		return consumelog.Facts{}, fmt.Errorf("read state of group %s: %w", a.w.Group, err)
	}
	a.now = now.Time
	f := consumelog.NewFacts(a.now)
	f.Floor, f.AllFresh = floor.Time, len(a.own) == len(a.items) && (a.shared == nil || a.shared.AllClaimed(a.items))
	for i := range a.items {
		it := &a.items[i]
		if _, before := f.Logged[it.EventID]; !before && a.own[it.EventID] {
			f.Logged[it.EventID], a.known[it.EventID] = consumelog.LogRow{No: it.No, Status: intended(it), Processed: a.now}, true
		}
	}
	if !waiting && f.AllFresh && !a.w.OrderedBySeq {
		return f, nil
	}
	if err := a.loadMore(db, &f, waiting); err != nil {
		return f, fmt.Errorf("read state of group %s: %w", a.w.Group, err)
	}
	return f, nil
}

// claimAndRecord inserts the rows of new events, those that foreign consumers
// see first.
func (a *apply) claimAndRecord(db context.Context) error {
	if a.shared != nil {
		if err := a.shared.claims(db, a); err != nil {
			return err
		}
	}
	return a.record(db)
}

// loadMore reads what is only needed where something waits, or was seen before.
// What is decided upon is locked first and read after: a log row that another
// transaction has in hand is waited for.
func (a *apply) loadMore(db context.Context, f *consumelog.Facts, waiting bool) error {
	if err := a.loadRoots(db); err != nil {
		return err
	}
	if waiting {
		if err := a.takeKeys(db); err != nil {
			return err
		}
		if err := a.loadRetries(db, f); err != nil {
			return err
		}
	}
	if !f.AllFresh {
		if err := a.loadLineages(db, f); err != nil {
			return err
		}
	}
	a.settleRetries(f)
	if !f.AllFresh {
		if err := a.loadLog(db, f); err != nil {
			return err
		}
		if a.shared != nil {
			if err := a.shared.load(db, a, f); err != nil {
				return err
			}
		}
		if err := a.loadEffects(db, f); err != nil {
			return err
		}
	}
	if waiting && !a.w.Pass {
		if err := a.loadBlockers(db, f); err != nil {
			return err
		}
	}
	if a.w.OrderedBySeq {
		if err := a.loadSeqs(db, f); err != nil {
			return err
		}
	}
	if a.shared != nil {
		a.shared.Merge(a.items, a.own, f)
	}
	return a.loadPassed(db, f)
}

// order puts the items of this transaction behind all that was recorded.
func (a *apply) order() {
	a.items = make([]consumelog.Item, len(a.w.Items))
	for i := range a.w.Items {
		it := consumelog.NewItem(&a.w.Items[i], firstNumber+int64(i)).Fit(fit)
		it.EventType = fit(it.EventType)
		a.items[i] = it
	}
}

// firstNumber is above every processed_no that the database gives.
const firstNumber = int64(1) << 62

// takeKeys takes, of the keys that items of the retry store have and of those
// that something holds, what nobody else works on.
func (a *apply) takeKeys(db context.Context) error {
	taken, err := lockItems(db, a.tx, a.retryIDs())
	if err != nil {
		return err
	}
	if a.busy, err = lockKeys(db, a.tx, a.w.Group, a.distinctKeys()); err != nil {
		return err
	}
	for i := range a.items {
		if it := &a.items[i]; taken[it.RetryID] {
			a.busy[it.Key] = true
		}
	}
	return nil
}

func (a *apply) retryIDs() (ids []int64) {
	for i := range a.items {
		if id := a.items[i].RetryID; id != 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// distinctKeys returns the keys of the items.
func (a *apply) distinctKeys() (keys []string) {
	seen := map[string]bool{}
	for i := range a.items {
		if key := a.items[i].Key; !seen[key] {
			seen[key] = true
			keys = append(keys, key)
		}
	}
	return keys
}

// What another member was given since is his.
const readRetries = `SELECT id, event_id, state = 'DEAD', blocking, replays, gap_since, coalesce(compensate, '') FROM t_consume_retry FORCE INDEX (PRIMARY)
WHERE consumer_group = ? AND (claimed_by IS NULL OR claimed_by = ?) AND id IN `

func (a *apply) loadRetries(db context.Context, f *consumelog.Facts) error {
	ids := a.retryIDs()
	for some := range slices.Chunk(ids, rowsAtOnce) {
		var id int64
		var gap sql.NullTime
		var r consumelog.RetryRow
		err := each(db, a.tx, []any{&id, &r.EventID, &r.Dead, &r.Blocking, &r.Replays, &gap, &r.Compensate}, func() {
			r.GapSince = gap.Time
			f.Retries[id] = r
		}, readRetries+places(len(some)), anys([]any{a.w.Group, a.in.s.member}, some)...)
		if err != nil {
			return err
		}
	}
	return nil
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

const (
	readLog = `SELECT event_id, processed_no, status, processed_at FROM t_message_consume_log FORCE INDEX (u_consume_log_event) WHERE consumer_group = ? AND event_id IN %s`

	// What may still change is read as it will be when others have ended. A scan
	// would wait for rows that are no business of ours.
	lockLog = readLog + ` ORDER BY event_id FOR UPDATE`
)

// loadLog reads the log rows that were there before. Those that may still
// change are locked: a foreign consumer may be about to end what we are about to
// take over, and another process to handle what an edited event stands in for.
func (a *apply) loadLog(db context.Context, f *consumelog.Facts) error {
	var open []string
	err := a.eachLog(db, readLog, a.loggable(f), func(id string, r consumelog.LogRow) {
		if consumelog.Final(r.Status) && r.Status != consumelog.StatusDiscarded && r.Status != consumelog.StatusSuperseded {
			f.Logged[id], a.known[id] = r, true
			return
		}
		open = append(open, id)
	})
	if err != nil {
		return err
	}
	return a.eachLog(db, lockLog, open, func(id string, r consumelog.LogRow) { f.Logged[id], a.known[id] = r, true })
}

// loggable are the events of which a row may have been there before.
func (a *apply) loggable(f *consumelog.Facts) []string {
	return slices.DeleteFunc(a.related(f), func(id string) bool { return a.own[id] })
}

// related are the events of the items and of their lineages, in order.
func (a *apply) related(f *consumelog.Facts) []string {
	want := map[string]bool{}
	for i := range a.items {
		it := &a.items[i]
		if it.RetryID != 0 && a.busy[it.Key] {
			continue // to be left alone, and not to be waited for
		}
		want[it.EventID] = true
		if it.Supersedes != "" {
			want[it.Supersedes], want[it.Root] = true, true
		}
		for _, m := range f.Lineages[it.Root] {
			want[m.EventID] = true
		}
	}
	return slices.Sorted(maps.Keys(want))
}

func (a *apply) eachLog(db context.Context, query string, ids []string, do func(id string, r consumelog.LogRow)) error {
	for some := range slices.Chunk(ids, rowsAtOnce) {
		var id string
		var r consumelog.LogRow
		err := each(db, a.tx, []any{&id, &r.No, &r.Status, &r.Processed}, func() { do(id, r) }, fmt.Sprintf(query, places(len(some))), anys([]any{a.w.Group}, some)...)
		if err != nil {
			return err
		}
	}
	return nil
}

// loadEffects reads who holds the effect keys of items that have no row of this
// transaction.
func (a *apply) loadEffects(db context.Context, f *consumelog.Facts) error {
	var items []*consumelog.Item
	for i := range a.items {
		it := &a.items[i]
		if row, ok := f.Logged[it.EventID]; it.EffectKey != "" && it.Intent == settle.IntentHandle && (!ok || row.No != it.No) {
			items = append(items, it)
		}
	}
	for some := range slices.Chunk(items, rowsAtOnce) {
		held, err := a.holders(db, some)
		if err != nil {
			return err
		}
		for k, id := range held {
			f.Effects[k] = id
		}
	}
	return nil
}
