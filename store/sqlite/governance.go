package sqlite

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

// Governance returns the file as what people look at and act on.
func (s *Store) Governance() *Governance { return &Governance{s: s} }

var _ govern.Store = (*Governance)(nil)

const letterColumns = `d.id, d.consumer_group, d.event_id, d.event_type, d.aggregate_id, d.biz_key, d.trace_id, d.class, d.reason, d.attempts, d.state,
d.opened_at, d.due_at, d.closed_at, d.closed_by, d.topic, d.partition, d.offset, CASE d.service_side WHEN 'relay' THEN
 (SELECT count(*) FROM t_outbox_parked p WHERE p.destination = d.destination AND p.aggregate_id = d.aggregate_id
  AND p.park_no > (SELECT o.park_no FROM t_outbox_parked o WHERE o.id = d.outbox_id AND o.destination = d.destination))
ELSE
 (SELECT count(*) FROM t_consume_retry r WHERE r.consumer_group = d.consumer_group AND r.aggregate_id = d.aggregate_id AND r.blocking = 1
  AND r.id > (SELECT o.id FROM t_consume_retry o WHERE o.consumer_group = d.consumer_group AND o.event_id = d.event_id AND o.blocking = 1))
END, d.service_side = 'bridge', CASE d.service_side WHEN 'txmsg' THEN d.destination ELSE '' END`

const letterFilter = `d.id > ?1 AND (?2 = '' OR d.consumer_group = ?2) AND (?3 = '' OR d.event_type = ?3) AND (?4 = '' OR d.class = ?4)
ORDER BY d.id LIMIT ?5`

const (
	listLettersAny   = `SELECT ` + letterColumns + ` FROM t_dead_letter d WHERE ?6 <> '' AND ` + letterFilter
	listLettersState = `SELECT ` + letterColumns + ` FROM t_dead_letter d WHERE d.state = ?6 AND ` + letterFilter
	listLettersIDs   = `SELECT ` + letterColumns + ` FROM t_dead_letter d
WHERE d.id IN (SELECT value FROM json_each(?7)) AND (?6 = 'any' OR d.state = ?6) AND ` + letterFilter
	listLettersKey = `SELECT ` + letterColumns + ` FROM t_dead_letter d
WHERE d.id IN (SELECT id FROM t_dead_letter WHERE aggregate_id = ?7 UNION SELECT id FROM t_dead_letter WHERE biz_key = ?7
 UNION SELECT id FROM t_dead_letter WHERE event_id = ?7 UNION SELECT id FROM t_dead_letter WHERE trace_id = ?7 AND trace_id <> '')
AND (?6 = 'any' OR d.state = ?6) AND ` + letterFilter
)

// DeadLetters implements govern.DeadLetters.
func (g *Governance) DeadLetters(ctx context.Context, f govern.Filter) ([]govern.DeadLetter, error) {
	if f.State == "" {
		f.State = govern.StateOpen
	}
	if f.Limit <= 0 {
		f.Limit = 100
	}
	query, args := listLettersState, []any{f.After, f.Group, f.EventType, string(f.Class), f.Limit, f.State}
	switch {
	case len(f.IDs) > 0:
		query, args = listLettersIDs, append(args, list(f.IDs))
	case f.Key != "":
		query, args = listLettersKey, append(args, fit(f.Key))
	case f.State == "any":
		query = listLettersAny
	}
	tx, err := g.s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	letters := []govern.DeadLetter{}
	err = each(ctx, tx, func(rows *sql.Rows) error {
		d, err := g.scanLetter(rows)
		// With ids and a key both apply: ids choose, the key narrows.
		if err == nil && (len(f.IDs) == 0 || f.Key == "" || f.Key == d.Key || f.Key == d.BizKey || f.Key == d.EventID || f.Key == d.TraceID) {
			letters = append(letters, d)
		}
		return err
	}, query, args...)
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	return letters, nil
}

type scanner interface{ Scan(...any) error }

func (g *Governance) scanLetter(row scanner, more ...any) (govern.DeadLetter, error) {
	var d govern.DeadLetter
	var opened, due int64
	var closed sql.NullInt64
	err := row.Scan(append([]any{&d.ID, &d.Group, &d.EventID, &d.EventType, &d.Key, &d.BizKey, &d.TraceID, &d.Class, &d.Reason, &d.Attempts, &d.State,
		&opened, &due, &closed, &d.ClosedBy, &d.Topic, &d.Partition, &d.Offset, &d.Behind, &d.Foreign, &d.Transaction}, more...)...)
	d.Service = g.s.service
	d.OpenedAt, d.DueAt = fromMicros(opened), fromMicros(due)
	if closed.Valid {
		at := fromMicros(closed.Int64)
		d.ClosedAt = &at
	}
	return d, err
}

const showLetter = `SELECT ` + letterColumns + `, d.raw, d.payload, d.headers FROM t_dead_letter d WHERE d.id = ?`

// DeadLetter implements govern.DeadLetters.
func (g *Governance) DeadLetter(ctx context.Context, id int64) (govern.DeadLetter, error) {
	tx, err := g.s.snapshot(ctx)
	if err != nil {
		return govern.DeadLetter{}, err
	}
	defer func() { _ = tx.Rollback() }()
	var raw, payload []byte
	var headers string
	d, err := g.scanLetter(tx.QueryRowContext(ctx, showLetter, id), &raw, &payload, &headers)
	if errors.Is(err, sql.ErrNoRows) {
		return govern.DeadLetter{}, fmt.Errorf("dead letter %d: %w", id, govern.ErrNotFound)
	}
	if err != nil {
		return govern.DeadLetter{}, fmt.Errorf("read dead letter %d: %w", id, err)
	}
	d.Raw, d.Payload = raw, payload
	// Headers that can't be read are shown as none: the raw record is there.
	if json.Unmarshal([]byte(headers), &d.Headers) != nil {
		d.Headers = nil
	}
	if d.Foreign {
		if d.Bridged, err = bridged(ctx, tx, id); err != nil {
			return govern.DeadLetter{}, fmt.Errorf("read what dead letter %d tells: %w", id, err)
		}
	}
	return d, nil
}
