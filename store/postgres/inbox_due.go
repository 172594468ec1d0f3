package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/settlemq/settle"
)

// maxDueBytes bounds what one Due loads, beyond its first event.
const maxDueBytes = 4 << 20

const (
	// What is due and nobody else has claimed, and what waits behind it in its
	// key: where it is and how large, in order per key. The records are read when
	// it is known how many.
	readCandidates = `WITH clock AS MATERIALIZED (SELECT ` + databaseNow + ` AS at),
h AS MATERIALIZED (SELECT id, aggregate_id, blocking, next_at FROM t_consume_retry
 WHERE consumer_group = $2 AND state = 'PARKED' AND next_at IS NOT NULL AND next_at <= (SELECT at FROM clock)
  AND (claimed_by IS NULL OR claimed_by = $4 OR claimed_until <= (SELECT at FROM clock)) ORDER BY next_at, id LIMIT $3 FOR UPDATE SKIP LOCKED)
SELECT h.id, h.aggregate_id, r.id, r.state = 'DEAD' OR r.next_at IS NOT NULL AND r.next_at > (SELECT at FROM clock), octet_length(r.raw) FROM h, LATERAL (
 (SELECT c.id, c.state, c.next_at, c.raw FROM t_consume_retry c WHERE NOT h.blocking AND c.id = h.id)
 UNION ALL
 (SELECT c.id, c.state, c.next_at, c.raw FROM t_consume_retry c
  WHERE h.blocking AND c.consumer_group = $2 AND c.aggregate_id = h.aggregate_id AND c.id >= h.id AND c.blocking ORDER BY c.id LIMIT $3::integer + 1)) r
ORDER BY h.next_at, h.id, r.id`

	// Keys that another member works on at this moment stay his, however long he
	// takes. A claim that is lost in a crash of the server is worth nothing after it.
	claimHeads = `UPDATE t_consume_retry r SET claimed_by = $2, claimed_until = $3
FROM unnest($4::bigint[], $5::text[]) AS k(id, key) WHERE r.id = k.id AND pg_try_advisory_xact_lock(` + keyLock + `) RETURNING r.id`
	claimLazily = `SELECT set_config('synchronous_commit', 'off', true)`

	readDue = `SELECT id, aggregate_id, attempts, next_at, class, cause, accept_duplicate, compensate IS NOT NULL, topic, partition, "offset", position, recorded_at,
 record_key, raw, headers FROM t_consume_retry WHERE id = ANY($1) ORDER BY array_position($1, id)`

	readNextDue = `SELECT c.at, (SELECT min(next_at) FROM t_consume_retry
WHERE consumer_group = $2 AND state = 'PARKED' AND next_at IS NOT NULL AND next_at > c.at) FROM (SELECT ` + databaseNow + ` AS at) c`
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
	err := in.s.write(ctx, in.s.business, func(tx pgx.Tx) error {
		found = settle.Due{}
		d := due{limit: limit, group: group, member: in.s.member}
		var now time.Time
		var next pgtype.Timestamptz
		if err := tx.QueryRow(ctx, readNextDue, in.s.clock(), group).Scan(&now, &next); err != nil {
			return err
		}
		// One time for both: what falls between two would neither be due nor next.
		if err := d.choose(ctx, tx, now); err != nil {
			return err
		}
		found.Next = instant(next)
		if d.full || d.found == limit {
			found.Next = now
		}
		if err := d.claim(ctx, tx, now.Add(claimTime)); err != nil {
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
	limit, bytes  int
	rows          int
	full          bool
	found         int // heads, whether they are taken or not
	heads         []dueHead
}

// dueHead is a row that is due, with those behind it that may follow at once.
type dueHead struct {
	id   int64
	key  string
	rows []int64
}

func (d *due) choose(ctx context.Context, tx pgx.Tx, now any) error {
	var head, id, last, size int64
	var key string
	var stops bool
	ended := false // what follows in this key is not due
	seen := map[int64]bool{}
	return each(ctx, tx, []any{&head, &key, &id, &stops, &size}, func() {
		if head != last {
			last, ended = head, false
			d.found++
		}
		ended = ended || stops || seen[id]
		if ended || d.full {
			return
		}
		if d.rows >= d.limit || d.rows > 0 && d.bytes+int(size) > maxDueBytes {
			d.full = true
			return
		}
		seen[id] = true
		d.bytes += int(size)
		d.rows++
		if id == head {
			d.heads = append(d.heads, dueHead{id: head, key: key})
		}
		at := &d.heads[len(d.heads)-1]
		at.rows = append(at.rows, id)
	}, readCandidates, now, d.group, d.limit, d.member)
}

// claim keeps of what was chosen what nobody works on, and claims it.
func (d *due) claim(ctx context.Context, tx pgx.Tx, until time.Time) error {
	if len(d.heads) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, claimLazily); err != nil {
		return err
	}
	ids, keys := make([]int64, len(d.heads)), make([]string, len(d.heads))
	for i := range d.heads {
		ids[i], keys[i] = d.heads[i].id, d.heads[i].key
	}
	ours := map[int64]bool{}
	var id int64
	err := each(ctx, tx, []any{&id}, func() { ours[id] = true }, claimHeads, d.group, d.member, until, ids, keys)
	d.heads = slices.DeleteFunc(d.heads, func(h dueHead) bool { return !ours[h.id] })
	return err
}

func (d *due) ids() (all []int64) {
	for _, h := range d.heads {
		all = append(all, h.rows...)
	}
	return all
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
