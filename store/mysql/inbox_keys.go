package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// retryHead is a row of the retry store that holds its key.
type retryHead struct {
	id, seq int64
}

const (
	// Left to itself the server may intersect two indexes, and sort all that waits
	// in a key.
	readHeads      = `(SELECT aggregate_id, id, aggregate_seq FROM t_consume_retry FORCE INDEX (i_consume_retry_key) WHERE consumer_group = ? AND aggregate_id = ? AND blocking ORDER BY `
	readHeadsByID  = readHeads + `id LIMIT ?)`
	readHeadsBySeq = readHeads + `aggregate_seq, id LIMIT ?)`
)

// keysAtOnce is of how many keys one statement reads the heads.
const keysAtOnce = 64

// heads returns the first rows of each key that hold it, as many as are wanted.
func heads(db context.Context, tx *sql.Tx, group string, keys []string, arm string, want func(key string) int) (map[string][]retryHead, error) {
	found := map[string][]retryHead{}
	for some := range slices.Chunk(keys, keysAtOnce) {
		var args []any
		for _, key := range some {
			args = append(args, group, key, want(key))
		}
		var key string
		var h retryHead
		query := arm + strings.Repeat(" UNION ALL "+arm, len(some)-1)
		if err := each(db, tx, []any{&key, &h.id, &h.seq}, func() { found[key] = append(found[key], h) }, query, args...); err != nil {
			return nil, err
		}
	}
	return found, nil
}

const (
	// Rows that others have locked are passed, so nobody waits.
	lockRetries = `SELECT id FROM t_consume_retry FORCE INDEX (PRIMARY) WHERE id IN %s FOR UPDATE SKIP LOCKED`
	findRetries = `SELECT id FROM t_consume_retry FORCE INDEX (PRIMARY) WHERE id IN %s`
)

// lockKeys takes the keys that something holds, and tells which are busy
// because somebody else works on them. A key is taken by the lock of the first
// row that holds it: whoever removes a row that holds a key has that lock until
// he commits, so that nothing comes to wait behind a row that is about to go.
func lockKeys(db context.Context, tx *sql.Tx, group string, keys []string) (busy map[string]bool, err error) {
	busy = map[string]bool{}
	tried := map[string]int64{}
	for range maxTries {
		lead, err := heads(db, tx, group, keys, readHeadsByID, func(string) int { return 1 })
		if err != nil {
			return nil, err
		}
		todo := map[string]int64{}
		for key, h := range lead {
			if busy[key] = tried[key] == h[0].id; !busy[key] {
				todo[key], tried[key] = h[0].id, h[0].id
			}
		}
		ours, err := someRetries(db, tx, lockRetries, slices.Collect(maps.Values(todo)))
		if err != nil {
			return nil, err
		}
		// One that has gone since it was looked for may have left another.
		keys = nil
		for key, id := range todo {
			if !ours[id] {
				keys = append(keys, key)
			}
		}
		if len(keys) == 0 {
			return busy, nil
		}
	}
	for _, key := range keys {
		busy[key] = true
	}
	return busy, nil
}

// lockItems locks rows that items have come from, and returns those that others
// have locked.
func lockItems(db context.Context, tx *sql.Tx, ids []int64) (taken map[int64]bool, err error) {
	ours, err := someRetries(db, tx, lockRetries, ids)
	if err != nil {
		return nil, err
	}
	return someRetries(db, tx, findRetries, slices.DeleteFunc(slices.Clone(ids), func(id int64) bool { return ours[id] }))
}

func someRetries(db context.Context, tx *sql.Tx, query string, ids []int64) (map[int64]bool, error) {
	found := map[int64]bool{}
	slices.Sort(ids)
	for some := range slices.Chunk(ids, rowsAtOnce) {
		var id int64
		if err := each(db, tx, []any{&id}, func() { found[id] = true }, fmt.Sprintf(query, places(len(some))), anys(nil, some)...); err != nil {
			return nil, err
		}
	}
	return found, nil
}
