package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle/store/consumelog"
)

const (
	readHeads = `SELECT k.key, h.id, h.aggregate_seq FROM unnest($2::text[], $3::integer[]) AS k(key, n),
LATERAL (SELECT id, aggregate_seq FROM t_consume_retry WHERE consumer_group = $1 AND aggregate_id = k.key AND blocking ORDER BY `
	readHeadsByID  = readHeads + `id LIMIT k.n) h ORDER BY k.key, h.id`
	readHeadsBySeq = readHeads + `aggregate_seq, id LIMIT k.n) h ORDER BY k.key, h.aggregate_seq, h.id`
)

// queueBlockers reads, for each key that something holds, one row more than
// the items of that key can remove.
func (a *apply) queueBlockers(b *pgx.Batch, f *consumelog.Facts) {
	keys, _ := a.distinctKeys()
	removable := map[string]int32{}
	for i := range a.items {
		removable[a.items[i].Key]++
	}
	rows := make([]int32, len(keys))
	for i, key := range keys {
		rows[i] = removable[key] + 1
	}
	query := readHeadsByID
	if a.w.OrderedBySeq {
		query = readHeadsBySeq
	}
	b.Queue(query, a.w.Group, keys, rows).Query(func(rows pgx.Rows) error {
		var key string
		var r consumelog.Blocker
		_, err := pgx.ForEachRow(rows, []any{&key, &r.ID, &r.Seq}, func() error {
			f.Blockers[key] = append(f.Blockers[key], r)
			return nil
		})
		return err
	})
}

const readRoots = `SELECT event_id, root_id FROM t_message_consume_log
WHERE consumer_group = $1 AND root_id IS NOT NULL AND event_id = ANY($2)`

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
	rows, err := a.conn.Query(db, readRoots, a.w.Group, from)
	if err != nil {
		return err
	}
	root := map[string]string{}
	var id, of string
	_, err = pgx.ForEachRow(rows, []any{&id, &of}, func() error {
		root[id] = of
		return nil
	})
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

const readLineages = `SELECT l.root_id, l.event_id, coalesce(r.id, 0) FROM t_message_consume_log l
LEFT JOIN t_consume_retry r ON r.consumer_group = l.consumer_group AND r.event_id = l.event_id
WHERE l.consumer_group = $1 AND l.root_id = ANY($2)
UNION SELECT e.id, e.id, coalesce(r.id, 0) FROM unnest($2::text[]) AS e(id)
LEFT JOIN t_consume_retry r ON r.consumer_group = $1 AND r.event_id = e.id`

// queueLineages reads the others that were edited from the same first events.
func (a *apply) queueLineages(b *pgx.Batch, f *consumelog.Facts) {
	var roots []string
	for i := range a.items {
		if a.items[i].Root != "" {
			roots = append(roots, a.items[i].Root)
		}
	}
	if len(roots) == 0 {
		return
	}
	b.Queue(readLineages, a.w.Group, roots).Query(func(rows pgx.Rows) error {
		var of string
		var m consumelog.Member
		_, err := pgx.ForEachRow(rows, []any{&of, &m.EventID, &m.RetryID}, func() error {
			f.Lineages[of] = append(f.Lineages[of], m)
			return nil
		})
		return err
	})
}

const readSeqs = `SELECT k.n, s.last_seq FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS k(aggregate_type, aggregate_id, n)
JOIN t_consume_seq s ON s.consumer_group = $1 AND s.aggregate_type = k.aggregate_type AND s.aggregate_id = k.aggregate_id`

// queueSeqs reads how far each aggregate has come.
func (a *apply) queueSeqs(b *pgx.Batch, f *consumelog.Facts) {
	var all []consumelog.SeqKey
	var types, ids []string
	seen := map[consumelog.SeqKey]bool{}
	for i := range a.items {
		k := a.items[i].Aggregate()
		if a.items[i].Seq == 0 || seen[k] {
			continue
		}
		seen[k] = true
		all, types, ids = append(all, k), append(types, clean(k.AggregateType)), append(ids, k.AggregateID)
	}
	b.Queue(readSeqs, a.w.Group, types, ids).Query(func(rows pgx.Rows) error {
		var n, last int64
		_, err := pgx.ForEachRow(rows, []any{&n, &last}, func() error {
			f.Seqs[all[n-1]] = last
			return nil
		})
		return err
	})
}

const readPassed = `SELECT aggregate_seq FROM t_message_consume_log
WHERE aggregate_id = $1 AND consumer_group = $2 AND status = 'DISCARDED' AND aggregate_seq > $3`

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
			rows, err := a.conn.Query(db, readPassed, k.AggregateID, a.w.Group, last)
			if err != nil {
				return err
			}
			f.Passed[k] = map[int64]bool{}
			var n int64
			_, err = pgx.ForEachRow(rows, []any{&n}, func() error {
				f.Passed[k][n] = true
				return nil
			})
			if err != nil {
				return err
			}
		}
		next[k] = max(next[k], it.Seq+1)
	}
	return nil
}
