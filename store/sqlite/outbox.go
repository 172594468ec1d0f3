package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/settlemq/settle"
)

var _ settle.Outbox[*sql.Tx] = (*Store)(nil)

const insertEvents = `INSERT INTO t_outbox_event (event_id, event_type, aggregate_type, aggregate_id, aggregate_seq, biz_key, trace_id, causation_id,
 supersedes, topic, version, content_type, occurred_at, appended_at, not_before, headers, payload) VALUES `

const (
	eventValues  = `(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`
	eventColumns = 17
)

// appendSizes are how many events one statement may insert. A fixed few, so
// that each is prepared once.
var appendSizes = [...]int{64, 8, 1}

// appendQueries returns the statement for each of appendSizes.
func appendQueries() (q [len(appendSizes)]string) {
	for i, n := range appendSizes {
		q[i] = insertEvents + strings.Repeat(eventValues+",", n-1) + eventValues
	}
	return q
}

const (
	beginAppend = `SAVEPOINT settle_append`
	undoAppend  = `ROLLBACK TO settle_append`
	endAppend   = `RELEASE settle_append`
)

// Append implements settle.Outbox. tx may be any transaction on the file, also
// one of a pool that is not the store's; those of Begin and DB are the
// fastest. On an error nothing of this call is stored, and the transaction can
// go on or be rolled back.
func (s *Store) Append(ctx context.Context, tx *sql.Tx, events ...*settle.Event) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("append %d events: %w", len(events), err)
	}
	// Inserts are short; a context that can end costs a goroutine for each.
	ctx = context.WithoutCancel(ctx)
	now := s.now()
	for _, e := range events {
		if err := e.Prepare(now); err != nil {
			return err
		}
	}
	// A single statement is undone by the database when it fails.
	if len(events) <= 1 {
		return s.insert(ctx, tx, events)
	}
	if _, err := tx.ExecContext(ctx, beginAppend); err != nil {
		return fmt.Errorf("append %d events: %w", len(events), err)
	}
	failed := s.insert(ctx, tx, events)
	if failed != nil {
		if _, err := tx.ExecContext(ctx, undoAppend); err != nil {
			return errors.Join(failed, err)
		}
	}
	if _, err := tx.ExecContext(ctx, endAppend); err != nil {
		return errors.Join(failed, fmt.Errorf("append %d events: %w", len(events), err))
	}
	return failed
}

func (s *Store) insert(ctx context.Context, tx *sql.Tx, events []*settle.Event) error {
	args := make([]any, 0, eventColumns*min(len(events), appendSizes[0]))
	for i, size := range appendSizes {
		for len(events) >= size {
			args = args[:0]
			for _, e := range events[:size] {
				args = appendEvent(args, e)
			}
			if _, err := tx.ExecContext(ctx, s.appends[i], args...); err != nil {
				return appendError(ctx, tx, events[:size], err)
			}
			events = events[size:]
		}
	}
	return nil
}

func appendEvent(args []any, e *settle.Event) []any {
	payload := e.Payload
	if payload == nil {
		payload = []byte{}
	}
	biz := e.BizKey
	if biz == e.AggregateID {
		biz = ""
	}
	return append(args, e.ID, e.Type, e.AggregateType, e.AggregateID, e.AggregateSeq, orNull(biz), orNull(e.TraceID), orNull(e.CausationID),
		orNull(e.Supersedes), e.Topic, e.Version, e.ContentType, e.OccurredAt.UnixMicro(), e.AppendedAt.UnixMicro(), micros(e.NotBefore),
		headersText(e.Headers), payload)
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// headersText is how headers are stored; nil when there are none.
func headersText(h map[string]string) any {
	if len(h) == 0 {
		return nil
	}
	b, err := json.Marshal(h)
	if err != nil { // strings always encode
		return nil
	}
	return string(b)
}

const findEvent = `SELECT count(*) FROM t_outbox_event WHERE event_id = ?`

// appendError names the event whose id is there already, or is twice in the
// call; the database does not say which one it was.
func appendError(ctx context.Context, tx *sql.Tx, events []*settle.Event, err error) error {
	if !isDuplicate(err) {
		return fmt.Errorf("append %d events: %w", len(events), err)
	}
	seen := make(map[string]bool, len(events))
	for _, e := range events {
		var n int
		if ask := tx.QueryRowContext(ctx, findEvent, e.ID).Scan(&n); ask != nil {
			return fmt.Errorf("append %d events: %w", len(events), errors.Join(err, ask))
		}
		if n > 0 || seen[e.ID] {
			return fmt.Errorf("append event %s of type %q: %w", e.ID, e.Type, settle.ErrDuplicateEvent)
		}
		seen[e.ID] = true
	}
	return fmt.Errorf("append %d events: %w", len(events), settle.ErrDuplicateEvent)
}

// isDuplicate goes by the text too: tx may belong to another driver.
func isDuplicate(err error) bool {
	return strings.Contains(err.Error(), "UNIQUE constraint failed: t_outbox_event.event_id")
}
