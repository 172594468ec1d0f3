package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/consumelog"
)

// maxDueBytes bounds what one Due loads, beyond its first event.
const maxDueBytes = 4 << 20

const retryColumns = `id, aggregate_id, attempts, next_at, class, cause, accept_duplicate, compensate IS NOT NULL, state, topic, partition, offset, position, recorded_at, record_key, raw, headers`

const readDueHeads = `SELECT id, aggregate_id, blocking FROM t_consume_retry
WHERE consumer_group = ? AND state = 'PARKED' AND next_at IS NOT NULL AND next_at <= ? ORDER BY next_at, id LIMIT ?`

const readDueOne = `SELECT ` + retryColumns + ` FROM t_consume_retry WHERE id = ?`

const readDueKey = `SELECT ` + retryColumns + ` FROM t_consume_retry
WHERE consumer_group = ? AND aggregate_id = ? AND id >= ? AND blocking = 1 ORDER BY id LIMIT ?`

const readNextDue = `SELECT min(next_at) FROM t_consume_retry
WHERE consumer_group = ? AND state = 'PARKED' AND next_at IS NOT NULL AND next_at > ?`

type dueHead struct {
	id       int64
	key      string
	blocking bool
}

// Due implements settle.Inbox. Only the first row of a key has a next_at; what
// waits behind it has none, so that a key that is dead or not due costs
// nothing here, however much waits in it.
//
// Nothing is claimed: one process writes to a file. Several on one file are given
// the same events, each of which takes effect once; one that fails may be tried by
// each of them for every attempt that is counted.
func (in *Inbox) Due(ctx context.Context, group string, limit int) (settle.Due, error) {
	now := in.s.now()
	tx, err := in.s.snapshot(ctx)
	if err != nil {
		return settle.Due{}, err
	}
	defer func() { _ = tx.Rollback() }()
	var heads []dueHead
	err = each(ctx, tx, func(rows *sql.Rows) error {
		var h dueHead
		err := rows.Scan(&h.id, &h.key, &h.blocking)
		heads = append(heads, h)
		return err
	}, readDueHeads, group, now.UnixMicro(), limit)
	if err != nil {
		return settle.Due{}, fmt.Errorf("read due events of group %s: %w", group, err)
	}
	d := due{now: now, limit: limit, seen: map[int64]bool{}}
	for _, h := range heads {
		if d.full {
			break
		}
		if err := d.load(ctx, tx, group, h); err != nil {
			return settle.Due{}, fmt.Errorf("read due events of group %s: %w", group, err)
		}
	}
	if d.full || len(heads) == limit {
		return settle.Due{Items: d.items, Next: now}, nil
	}
	var next sql.NullInt64
	if err := tx.QueryRowContext(ctx, readNextDue, group, now.UnixMicro()).Scan(&next); err != nil {
		return settle.Due{}, fmt.Errorf("read due events of group %s: %w", group, err)
	}
	return settle.Due{Items: d.items, Next: when(next)}, nil
}

// due gathers items up to its bounds.
type due struct {
	now   time.Time
	limit int
	bytes int
	full  bool
	seen  map[int64]bool
	items []settle.Item
}

func (d *due) load(ctx context.Context, tx *sql.Tx, group string, h dueHead) error {
	query, args := readDueOne, []any{h.id}
	if h.blocking {
		query, args = readDueKey, []any{group, h.key, h.id, d.limit - len(d.items) + 1}
	}
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		it, dead, err := scanRetry(rows)
		if err != nil {
			return err
		}
		if dead || d.seen[it.RetryID] || it.NextAt.After(d.now) {
			return nil
		}
		if len(d.items) >= d.limit || len(d.items) > 0 && d.bytes+len(it.Record.Raw) > maxDueBytes {
			d.full = true
			return nil
		}
		d.seen[it.RetryID] = true
		d.bytes += len(it.Record.Raw)
		d.items = append(d.items, it)
	}
	return rows.Err()
}

// scanRetry reads a row of t_consume_retry. What can't be decoded is an item
// with DecodeErr, never a failure of the others.
func scanRetry(rows *sql.Rows) (settle.Item, bool, error) {
	var it settle.Item
	var next, recorded sql.NullInt64
	var state, key, headers string
	r := &it.Record
	err := rows.Scan(&it.RetryID, &key, &it.Attempt, &next, &it.Class, &it.Cause, &it.AcceptDuplicate, &it.Compensate, &state,
		&r.At.Topic, &r.At.Partition, &r.At.Offset, &r.Position, &recorded, &r.Key, &r.Raw, &headers)
	if err != nil {
		return it, false, err
	}
	it.NextAt, r.RecordedAt = when(next), when(recorded)
	defer func() {
		if r.Event == nil {
			r.Key = key // the broker's may be another
		}
	}()
	if err := json.Unmarshal([]byte(headers), &r.Headers); err != nil {
		r.DecodeErr = fmt.Errorf("read headers: %w", err)
		return it, state == consumelog.StatusDead, nil
	}
	if r.Event, r.DecodeErr = settle.DecodeEnvelope(r.Raw, r.Headers); r.Event != nil {
		r.Event.Topic = r.At.Topic
	}
	return it, state == consumelog.StatusDead, nil
}
