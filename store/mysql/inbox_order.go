package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/settlemq/settle/store/consumelog"
)

// loadBlockers reads, for each key that something holds, one row more than the
// items of that key can remove.
func (a *apply) loadBlockers(db context.Context, f *consumelog.Facts) error {
	removable := map[string]int{}
	for i := range a.items {
		removable[a.items[i].Key]++
	}
	arm := readHeadsByID
	if a.w.OrderedBySeq {
		arm = readHeadsBySeq
	}
	found, err := heads(db, a.tx, a.w.Group, a.distinctKeys(), arm, func(key string) int { return removable[key] + 1 })
	for key, rows := range found {
		for _, h := range rows {
			f.Blockers[key] = append(f.Blockers[key], consumelog.Blocker{ID: h.id, Seq: h.seq})
		}
		slices.SortFunc(f.Blockers[key], func(x, y consumelog.Blocker) int {
			if a.w.OrderedBySeq {
				return cmp.Or(cmp.Compare(x.Seq, y.Seq), cmp.Compare(x.ID, y.ID))
			}
			return cmp.Compare(x.ID, y.ID)
		})
	}
	return err
}

const readRoots = `SELECT event_id, root_id FROM t_message_consume_log
WHERE consumer_group = ? AND root_id IS NOT NULL AND event_id IN `

// loadRoots finds the first event of each edited item.
func (a *apply) loadRoots(db context.Context) error {
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
	var id, of string
	err := each(db, a.tx, []any{&id, &of}, func() { root[id] = of }, readRoots+places(len(from)), anys([]any{a.w.Group}, from)...)
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
	}
	return err
}

const (
	readEdited = `SELECT l.root_id, l.event_id, coalesce(r.id, 0) FROM t_message_consume_log l
LEFT JOIN t_consume_retry r ON r.consumer_group = l.consumer_group AND r.event_id = l.event_id
WHERE l.consumer_group = ? AND l.root_id IN `

	readFirst = `SELECT event_id, event_id, id FROM t_consume_retry WHERE consumer_group = ? AND event_id IN `
)

// loadLineages reads the others that were edited from the same first events,
// and these.
func (a *apply) loadLineages(db context.Context, f *consumelog.Facts) error {
	var roots []string
	for i := range a.items {
		if root := a.items[i].Root; root != "" && !slices.Contains(roots, root) {
			roots = append(roots, root)
		}
	}
	if len(roots) == 0 {
		return nil
	}
	var of string
	var m consumelog.Member
	add := func() {
		if !slices.Contains(f.Lineages[of], m) {
			f.Lineages[of] = append(f.Lineages[of], m)
		}
	}
	args := anys([]any{a.w.Group}, roots)
	if err := each(db, a.tx, []any{&of, &m.EventID, &m.RetryID}, add, readEdited+places(len(roots)), args...); err != nil {
		return err
	}
	if err := each(db, a.tx, []any{&of, &m.EventID, &m.RetryID}, add, readFirst+places(len(roots)), args...); err != nil {
		return err
	}
	for _, root := range roots {
		if !slices.ContainsFunc(f.Lineages[root], func(m consumelog.Member) bool { return m.EventID == root }) {
			f.Lineages[root] = append(f.Lineages[root], consumelog.Member{EventID: root})
		}
	}
	return nil
}

const readSeq = `SELECT last_seq FROM t_consume_seq WHERE consumer_group = ? AND aggregate_type = ? AND aggregate_id = ?`

// loadSeqs reads how far each aggregate has come.
func (a *apply) loadSeqs(db context.Context, f *consumelog.Facts) error {
	seen := map[consumelog.SeqKey]bool{}
	for i := range a.items {
		k := a.items[i].Aggregate()
		if a.items[i].Seq == 0 || seen[k] {
			continue
		}
		seen[k] = true
		var last int64
		err := a.tx.QueryRowContext(db, readSeq, a.w.Group, fit(k.AggregateType), k.AggregateID).Scan(&last)
		if err == nil {
			f.Seqs[k] = last
		} else if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
	}
	return nil
}

const readPassed = `SELECT aggregate_seq FROM t_message_consume_log
WHERE aggregate_id = ? AND consumer_group = ? AND status = 'DISCARDED' AND aggregate_seq > ?`

// loadPassed reads what people have discarded above the last place, where an
// item seems to have a gap before it.
func (a *apply) loadPassed(db context.Context, f *consumelog.Facts) error {
	next := map[consumelog.SeqKey]int64{}
	for i := range a.items {
		it := &a.items[i]
		k := it.Aggregate()
		last, begun := f.Seqs[k]
		if it.Seq == 0 || !begun {
			continue
		}
		if it.Seq > max(next[k], last+1) && f.Passed[k] == nil {
			f.Passed[k] = map[int64]bool{}
			var n int64
			if err := each(db, a.tx, []any{&n}, func() { f.Passed[k][n] = true }, readPassed, k.AggregateID, a.w.Group, last); err != nil {
				return err
			}
		}
		next[k] = max(next[k], it.Seq+1)
	}
	return nil
}
