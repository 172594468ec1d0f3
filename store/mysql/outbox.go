package mysql

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/settlemq/settle"
)

var _ settle.Outbox[*sql.Tx] = (*Store)(nil)

const (
	insertEvents = `INSERT INTO t_outbox_event (event_id, event_type, aggregate_type, aggregate_id, aggregate_seq, biz_key, trace_id, causation_id,
 supersedes, topic, version, content_type, occurred_at, appended_at, not_before, headers, payload) VALUES `
	oneEvent = `(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`

	takeBack = `DELETE FROM t_outbox_event WHERE event_id = ?`
)

// Append implements settle.Outbox. tx may be any transaction on the database,
// also one of a pool or a driver that is not the store's. On an error of an
// event nothing of this call is stored, and the transaction can go on or be
// rolled back; after a deadlock the server has rolled it back.
func (s *Store) Append(ctx context.Context, tx *sql.Tx, events ...*settle.Event) error {
	if s.adopted != nil {
		return fmt.Errorf("append %d events: the outbox of this database is %s, whose columns are its owner's: insert into it", len(events), s.adopted.plainName())
	}
	now := s.now()
	for _, e := range events {
		if err := e.Prepare(now); err != nil {
			return err
		}
	}
	sizes, err := s.chunks(events)
	if err != nil {
		return err
	}
	stored := 0
	for _, n := range sizes {
		if err := insert(ctx, tx, events[stored:stored+n]); err != nil {
			if !errors.Is(err, settle.ErrDuplicateEvent) {
				return err
			}
			// Nobody else sees them before the commit: their ids are never used.
			for _, e := range events[:stored] {
				if _, undo := tx.ExecContext(ctx, takeBack, e.ID); undo != nil {
					return fmt.Errorf("append %d events: %w", len(events), errors.Join(err, undo))
				}
			}
			return err
		}
		stored += n
	}
	return nil
}

// insert stores events by one statement, which stores all or none.
func insert(ctx context.Context, tx *sql.Tx, events []*settle.Event) error {
	args := make([]any, 0, 17*len(events))
	for _, e := range events {
		args = appendEvent(args, e)
	}
	_, err := tx.ExecContext(ctx, insertEvents+oneEvent+strings.Repeat(","+oneEvent, len(events)-1), args...)
	switch {
	case err == nil:
		return nil
	case hasCode(err, codeDuplicate):
		e := duplicateOf(err, events)
		return fmt.Errorf("append event %s of type %q: %w", e.ID, e.Type, settle.ErrDuplicateEvent)
	}
	return fmt.Errorf("append %d events: %w", len(events), err)
}

// duplicateOf finds the event that the server's message names.
func duplicateOf(err error, events []*settle.Event) *settle.Event {
	for _, e := range events {
		if strings.Contains(err.Error(), "'"+e.ID+"'") {
			return e
		}
	}
	return events[0]
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
		orNull(e.Supersedes), e.Topic, e.Version, e.ContentType, e.OccurredAt.UTC(), e.AppendedAt.UTC(), timeOrNull(e.NotBefore),
		headersText(e.Headers), payload)
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// timeOrNull is a nullable column of time; nil for the zero time.
func timeOrNull(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC()
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
