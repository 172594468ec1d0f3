package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/settlemq/settle"
)

// maxDueBytes bounds what one Due loads, beyond its first event.
const maxDueBytes = 4 << 20

const (
	// What is due, and what waits behind it in its key: where it is and how
	// large, in order per key. The records are read when it is known how many.
	readCandidates = `WITH clock AS MATERIALIZED (SELECT ` + databaseNow + ` AS at),
h AS MATERIALIZED (SELECT id, aggregate_id, blocking, next_at FROM t_consume_retry
 WHERE consumer_group = $2 AND state = 'PARKED' AND next_at IS NOT NULL AND next_at <= (SELECT at FROM clock) ORDER BY next_at, id LIMIT $3)
SELECT h.id, r.id, r.state = 'DEAD' OR r.next_at IS NOT NULL AND r.next_at > (SELECT at FROM clock), octet_length(r.raw) FROM h, LATERAL (
 (SELECT c.id, c.state, c.next_at, c.raw FROM t_consume_retry c WHERE NOT h.blocking AND c.id = h.id)
 UNION ALL
 (SELECT c.id, c.state, c.next_at, c.raw FROM t_consume_retry c
  WHERE h.blocking AND c.consumer_group = $2 AND c.aggregate_id = h.aggregate_id AND c.id >= h.id AND c.blocking ORDER BY c.id LIMIT $3::integer + 1)) r
ORDER BY h.next_at, h.id, r.id`

	readDue = `SELECT id, aggregate_id, attempts, next_at, class, cause, accept_duplicate, compensate IS NOT NULL, topic, partition, "offset", position, recorded_at,
 record_key, raw, headers FROM t_consume_retry WHERE id = ANY($1) ORDER BY array_position($1, id)`

	readNextDue = `SELECT c.at, (SELECT min(next_at) FROM t_consume_retry
WHERE consumer_group = $2 AND state = 'PARKED' AND next_at IS NOT NULL AND next_at > c.at) FROM (SELECT ` + databaseNow + ` AS at) c`
)

// Due implements settle.Inbox. Only the first row of a key has a next_at; what
// waits behind it has none, so that a key that is dead or not due costs
// nothing here, however much waits in it.
func (in *Inbox) Due(ctx context.Context, group string, limit int) (settle.Due, error) {
	var found settle.Due
	err := in.s.view(ctx, func(tx pgx.Tx) error {
		d := due{limit: limit, seen: map[int64]bool{}}
		if err := d.choose(ctx, tx, in.s.clock(), group); err != nil {
			return err
		}
		var now time.Time
		var next pgtype.Timestamptz
		if err := tx.QueryRow(ctx, readNextDue, in.s.clock(), group).Scan(&now, &next); err != nil {
			return err
		}
		found.Next = instant(next)
		if d.full || d.heads == limit {
			found.Next = now
		}
		var err error
		found.Items, err = loadDue(ctx, tx, d.ids)
		return err
	})
	if err != nil {
		return settle.Due{}, fmt.Errorf("read due events of group %s: %w", group, err)
	}
	return found, nil
}

// due chooses rows up to its bounds.
type due struct {
	limit, bytes int
	full         bool
	heads        int
	seen         map[int64]bool
	ids          []int64
}

func (d *due) choose(ctx context.Context, tx pgx.Tx, now any, group string) error {
	var head, id, last, size int64
	var stops bool
	ended := false // what follows in this key is not due
	return each(ctx, tx, []any{&head, &id, &stops, &size}, func() {
		if head != last {
			last, ended = head, false
			d.heads++
		}
		ended = ended || stops || d.seen[id]
		if ended || d.full {
			return
		}
		if len(d.ids) >= d.limit || len(d.ids) > 0 && d.bytes+int(size) > maxDueBytes {
			d.full = true
			return
		}
		d.seen[id] = true
		d.bytes += int(size)
		d.ids = append(d.ids, id)
	}, readCandidates, now, group, d.limit)
}

func loadDue(ctx context.Context, tx pgx.Tx, ids []int64) ([]settle.Item, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, readDue, ids)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanRetry)
}

// scanRetry reads a row of t_consume_retry. What can't be decoded is an item
// with DecodeErr, never a failure of the others.
func scanRetry(row pgx.CollectableRow) (settle.Item, error) {
	var it settle.Item
	var next, recorded pgtype.Timestamptz
	var key string
	var recordKey, headers []byte
	r := &it.Record
	err := row.Scan(&it.RetryID, &key, &it.Attempt, &next, &it.Class, &it.Cause, &it.AcceptDuplicate, &it.Compensate,
		&r.At.Topic, &r.At.Partition, &r.At.Offset, &r.Position, &recorded, &recordKey, &r.Raw, &headers)
	if err != nil {
		return it, err
	}
	it.NextAt, r.RecordedAt, r.Key = instant(next), instant(recorded), string(recordKey)
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
