package mysql

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/settlemq/settle/govern"
)

// Governance is what people ask of one service's database, and do to it.
type Governance struct {
	s *Store
}

// Governance returns the database as what people look at and act on.
func (s *Store) Governance() *Governance { return &Governance{s: s} }

var _ govern.Store = (*Governance)(nil)

const letterColumns = `d.id, d.consumer_group, d.event_id, d.event_type, d.aggregate_id, d.biz_key, d.trace_id, d.class, d.reason, d.attempts, d.state,
d.opened_at, d.due_at, d.closed_at, d.closed_by, d.topic, d.` + "`partition`, d.`offset`" + `, CASE d.service_side WHEN 'relay' THEN
 (SELECT count(*) FROM t_outbox_parked p WHERE p.destination = d.destination AND p.aggregate_id = d.aggregate_id
  AND p.park_no > (SELECT o.park_no FROM t_outbox_parked o WHERE o.id = d.outbox_id AND o.destination = d.destination))
ELSE
 (SELECT count(*) FROM t_consume_retry r WHERE r.consumer_group = d.consumer_group AND r.aggregate_id = d.aggregate_id AND r.blocking
  AND r.id > (SELECT o.id FROM t_consume_retry o WHERE o.consumer_group = d.consumer_group AND o.event_id = d.event_id AND o.blocking))
END, d.service_side = 'bridge', CASE d.service_side WHEN 'txmsg' THEN d.destination ELSE '' END`

const letterFilter = `(? = 'any' OR d.state = ?) AND d.id > ? AND (? = '' OR d.consumer_group = ?) AND (? = '' OR d.event_type = ?) AND (? = '' OR d.class = ?)
ORDER BY d.id LIMIT ?`

const (
	listLetters      = `SELECT ` + letterColumns + ` FROM t_dead_letter d WHERE ` + letterFilter
	listLettersState = `SELECT ` + letterColumns + ` FROM t_dead_letter d WHERE d.state = ? AND ` + letterFilter
	listLettersIDs   = `SELECT ` + letterColumns + ` FROM t_dead_letter d WHERE d.id IN (%s) AND ` + letterFilter
	listLettersKey   = `SELECT ` + letterColumns + ` FROM t_dead_letter d
WHERE d.id IN (SELECT id FROM (SELECT id FROM t_dead_letter WHERE aggregate_id = ? UNION SELECT id FROM t_dead_letter WHERE biz_key = ?
 UNION SELECT id FROM t_dead_letter WHERE event_id = ? UNION SELECT id FROM t_dead_letter WHERE trace_id = ? AND trace_id <> '') found)
AND ` + letterFilter
)

// DeadLetters implements govern.DeadLetters.
func (g *Governance) DeadLetters(ctx context.Context, f govern.Filter) ([]govern.DeadLetter, error) {
	if f.State == "" {
		f.State = govern.StateOpen
	}
	if f.Limit <= 0 {
		f.Limit = 100
	}
	key, group, typed, class := fit(f.Key), clean(f.Group), clean(f.EventType), string(f.Class)
	query, args := listLettersState, []any{f.State}
	switch {
	case len(f.IDs) > 0:
		query, args = fmt.Sprintf(listLettersIDs, times(len(f.IDs), "?")), list(f.IDs)
	case key != "":
		query, args = listLettersKey, []any{key, key, key, key}
	case f.State == "any":
		query, args = listLetters, nil
	}
	args = append(args, f.State, f.State, f.After, group, group, typed, typed, class, class, f.Limit)
	letters := []govern.DeadLetter{}
	err := snapshot(ctx, g.s.reader, func(tx *sql.Tx) error {
		var r letterRow
		return each(ctx, tx, r.into(), func() {
			d := r.letter(g.s.service)
			// With ids and a key both apply: ids choose, the key narrows.
			if len(f.IDs) == 0 || key == "" || key == d.Key || key == d.BizKey || key == d.EventID || key == d.TraceID {
				letters = append(letters, d)
			}
		}, query, args...)
	})
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", explain(err))
	}
	return letters, nil
}

// list is values as the arguments of a list.
func list[T any](values []T) []any {
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = v
	}
	return args
}

// letterRow is a dead letter as its columns are read.
type letterRow struct {
	d                   govern.DeadLetter
	opened, due, closed timeColumn
}

func (r *letterRow) into() []any {
	d := &r.d
	return []any{&d.ID, &d.Group, &d.EventID, &d.EventType, &d.Key, &d.BizKey, &d.TraceID, &d.Class, &d.Reason, &d.Attempts, &d.State,
		&r.opened, &r.due, &r.closed, &d.ClosedBy, &d.Topic, &d.Partition, &d.Offset, &d.Behind, &d.Foreign, &d.Transaction}
}

func (r *letterRow) letter(service string) govern.DeadLetter {
	d := r.d
	d.Service, d.OpenedAt, d.DueAt = service, r.opened.Time, r.due.Time
	if at := r.closed.Time; !at.IsZero() {
		d.ClosedAt = &at
	}
	return d
}

const showLetter = `SELECT ` + letterColumns + `, d.raw, d.payload, d.headers FROM t_dead_letter d WHERE d.id = ?`

// DeadLetter implements govern.DeadLetters.
func (g *Governance) DeadLetter(ctx context.Context, id int64) (govern.DeadLetter, error) {
	var r letterRow
	var raw, payload, headers []byte
	var foreign *govern.Bridged
	err := snapshot(ctx, g.s.reader, func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, showLetter, id).Scan(append(r.into(), &raw, &payload, &headers)...)
		if err == nil && r.d.Foreign {
			foreign, err = bridged(ctx, tx, id)
		}
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return govern.DeadLetter{}, fmt.Errorf("dead letter %d: %w", id, govern.ErrNotFound)
	}
	if err != nil {
		return govern.DeadLetter{}, fmt.Errorf("read dead letter %d: %w", id, explain(err))
	}
	d := r.letter(g.s.service)
	d.Raw, d.Payload, d.Bridged = raw, payload, foreign
	// Headers that can't be read are shown as none: the raw record is there.
	if json.Unmarshal(headers, &d.Headers) != nil {
		d.Headers = nil
	}
	return d, nil
}
