package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/settlemq/settle"
)

// maxDueBytes bounds what one Due loads, beyond its first event.
const maxDueBytes = 4 << 20

const (
	// What is due and nobody else has claimed. It is looked for without a lock and
	// then locked by its ids, because a scan locks for a moment what it passes,
	// and that would look to others as if somebody worked on it.
	findDue = `SELECT id, aggregate_id, blocking FROM t_consume_retry FORCE INDEX (i_consume_retry_due) WHERE consumer_group = ? AND ` + isDue + ` ORDER BY next_at, id LIMIT ?`
	lockDue = `SELECT id FROM t_consume_retry FORCE INDEX (PRIMARY) WHERE id IN %s AND ` + isDue + ` FOR UPDATE SKIP LOCKED`
	isDue   = `state = 'PARKED' AND next_at <= ? AND (claimed_by IS NULL OR claimed_by = ? OR claimed_until <= ?)`

	// It, and what waits behind it in its key: where it is and how large, in order.
	// The records are read when it is known how many.
	readFollowers = `(SELECT ? AS head, id, state = 'DEAD' OR next_at IS NOT NULL AND next_at > ? AS stops, LENGTH(raw) AS bytes FROM t_consume_retry FORCE INDEX (i_consume_retry_key)
 WHERE consumer_group = ? AND aggregate_id = ? AND id >= ? AND (blocking AND ? OR id = ?) ORDER BY id LIMIT ?)`

	claimHeads = `UPDATE t_consume_retry SET claimed_by = ?, claimed_until = ? WHERE id IN `

	readDue = `SELECT id, aggregate_id, attempts, next_at, class, cause, accept_duplicate, compensate IS NOT NULL, topic, ` + "`partition`, `offset`" + `, position, recorded_at,
 record_key, raw, headers FROM t_consume_retry WHERE id IN `

	readClock   = `SELECT ` + databaseNow
	readNextDue = `SELECT min(next_at) FROM t_consume_retry WHERE consumer_group = ? AND state = 'PARKED' AND next_at > ?`
)

// claimTime is how long what is due is left to the member that has loaded it or
// has written of it last. After a death the others wait so long. One that takes
// longer keeps what it has in hand, and what nobody else has claimed since.
const claimTime = 5 * time.Second

// Due implements settle.Inbox. Only the first row of a key has a next_at; what
// waits behind it has none, so that a key that is dead or not due costs
// nothing here, however much waits in it. What one Store has been given no other
// one is given for claimTime, and an item that another one has claimed since is
// VerdictStored: so each attempt is made, and counted, by one member.
func (in *Inbox) Due(ctx context.Context, group string, limit int) (settle.Due, error) {
	var found settle.Due
	err := in.s.write(ctx, in.s.own, func(tx *sql.Tx) error {
		found = settle.Due{}
		d := due{limit: limit, group: group, member: in.s.member}
		var now timeColumn
		if err := tx.QueryRowContext(ctx, readClock, in.s.clock()).Scan(&now); err != nil {
			return err
		}
		d.now = now.Time
		if err := d.choose(ctx, tx); err != nil {
			return err
		}
		var next sql.NullTime
		if err := tx.QueryRowContext(ctx, readNextDue, group, d.now).Scan(&next); err != nil {
			return err
		}
		found.Next = next.Time
		if d.full || d.found == limit {
			found.Next = d.now
		}
		if err := d.claim(ctx, tx); err != nil {
			return err
		}
		var err error
		found.Items, err = loadDue(ctx, tx, d.ids())
		return err
	})
	if err != nil {
		return settle.Due{}, fmt.Errorf("read due events of group %s: %w", group, err)
	}
	return found, nil
}

// due chooses rows up to its bounds.
type due struct {
	group, member string
	now           time.Time
	limit, bytes  int
	rows          int
	full          bool
	found         int // heads, whether they are taken or not
	heads         []dueHead
}

// dueHead is a row that is due, with those behind it that may follow at once.
type dueHead struct {
	id       int64
	key      string
	blocking bool
	rows     []int64
}

// choose takes what is due of keys that nobody works on: they stay his, however
// long he takes.
func (d *due) choose(ctx context.Context, tx *sql.Tx) error {
	var h dueHead
	var all []dueHead
	free := []any{d.now, d.member, d.now}
	err := each(ctx, tx, []any{&h.id, &h.key, &h.blocking}, func() { all = append(all, h) }, findDue, slices.Concat([]any{d.group}, free, []any{d.limit})...)
	if err != nil || len(all) == 0 {
		return err
	}
	d.found = len(all)
	ids := make([]any, len(all))
	for i := range all {
		ids[i] = all[i].id
	}
	var id int64
	ours := map[int64]bool{}
	if err := each(ctx, tx, []any{&id}, func() { ours[id] = true }, fmt.Sprintf(lockDue, places(len(ids))), append(ids, free...)...); err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(h dueHead) bool { return !ours[h.id] })
	var keys []string
	for _, h := range all {
		if h.blocking && !slices.Contains(keys, h.key) {
			keys = append(keys, h.key)
		}
	}
	busy, err := lockKeys(ctx, tx, d.group, keys)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(h dueHead) bool { return busy[h.key] })
	seen := map[int64]bool{}
	for some := range slices.Chunk(all, keysAtOnce) {
		if d.full {
			return nil
		}
		if err := d.follow(ctx, tx, some, seen); err != nil {
			return err
		}
	}
	return nil
}

// follow takes heads, and what is behind them.
func (d *due) follow(ctx context.Context, tx *sql.Tx, some []dueHead, seen map[int64]bool) error {
	type follower struct {
		head, id, size int64
		stops          bool
	}
	behind := map[int64][]follower{}
	var args []any
	for _, h := range some {
		args = append(args, h.id, d.now, d.group, h.key, h.id, h.blocking, h.id, d.limit+1)
	}
	var f follower
	query := readFollowers + strings.Repeat(" UNION ALL "+readFollowers, len(some)-1)
	if err := each(ctx, tx, []any{&f.head, &f.id, &f.stops, &f.size}, func() { behind[f.head] = append(behind[f.head], f) }, query, args...); err != nil {
		return err
	}
	for _, h := range some {
		rows := behind[h.id]
		slices.SortFunc(rows, func(x, y follower) int { return cmp.Compare(x.id, y.id) })
		for _, f := range rows {
			if f.stops || seen[f.id] {
				break // what follows in this key is not due
			}
			if d.rows >= d.limit || d.rows > 0 && d.bytes+int(f.size) > maxDueBytes {
				d.full = true
				break
			}
			seen[f.id] = true
			d.bytes += int(f.size)
			d.rows++
			h.rows = append(h.rows, f.id)
		}
		if len(h.rows) > 0 {
			d.heads = append(d.heads, h)
		}
		if d.full {
			return nil
		}
	}
	return nil
}

// claim claims what was chosen.
func (d *due) claim(ctx context.Context, tx *sql.Tx) error {
	if len(d.heads) == 0 {
		return nil
	}
	args := []any{d.member, d.now.Add(claimTime)}
	for _, h := range d.heads {
		args = append(args, h.id)
	}
	_, err := tx.ExecContext(ctx, claimHeads+places(len(d.heads)), args...)
	return err
}

func (d *due) ids() (all []int64) {
	for _, h := range d.heads {
		all = append(all, h.rows...)
	}
	return all
}

// loadDue reads rows in the order of their ids in the list.
func loadDue(ctx context.Context, tx *sql.Tx, ids []int64) ([]settle.Item, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := tx.QueryContext(ctx, readDue+places(len(ids)), anys(nil, ids)...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	at := map[int64]int{}
	for i, id := range ids {
		at[id] = i
	}
	var items []settle.Item
	for rows.Next() {
		it, err := scanRetry(rows)
		if err != nil {
			return nil, err
		}
		items = append(items, it)
	}
	slices.SortFunc(items, func(x, y settle.Item) int { return cmp.Compare(at[x.RetryID], at[y.RetryID]) })
	return items, rows.Err()
}

// scanRetry reads a row of t_consume_retry. What can't be decoded is an item
// with DecodeErr, never a failure of the others.
func scanRetry(row *sql.Rows) (settle.Item, error) {
	var it settle.Item
	var next, recorded sql.NullTime
	var key string
	var recordKey, headers []byte
	r := &it.Record
	err := row.Scan(&it.RetryID, &key, &it.Attempt, &next, &it.Class, &it.Cause, &it.AcceptDuplicate, &it.Compensate,
		&r.At.Topic, &r.At.Partition, &r.At.Offset, &r.Position, &recorded, &recordKey, &r.Raw, &headers)
	if err != nil {
		return it, err
	}
	it.NextAt, r.RecordedAt, r.Key = next.Time, recorded.Time, string(recordKey)
	if err := json.Unmarshal(headers, &r.Headers); err != nil {
		r.DecodeErr = fmt.Errorf("read headers: %w", err)
	} else {
		r.Event, r.DecodeErr = settle.DecodeEnvelope(r.Raw, r.Headers)
	}
	if r.Event == nil {
		r.Key = key // the broker's may be another
	} else {
		r.Event.Topic = r.At.Topic
	}
	return it, nil
}
