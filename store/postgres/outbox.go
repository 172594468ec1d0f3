package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/settlemq/settle"
)

var _ settle.Outbox[*sql.Tx] = (*Store)(nil)

// An id of the caller's may be there already. That is no error to the database,
// which would end the caller's transaction: the row is left out, and the answer
// shows it. Ids that Append has made are new, and nothing need be asked or
// answered: of a unique index the server then writes and reads less.
const (
	insertEvents = `INSERT INTO t_outbox_event (event_id, event_type, aggregate_type, aggregate_id, aggregate_seq, biz_key, trace_id, causation_id,
 supersedes, topic, version, content_type, occurred_at, appended_at, not_before, headers, payload) VALUES `
	unlessKnown = ` ON CONFLICT (event_id) DO NOTHING RETURNING id, event_id`

	takeBack = `DELETE FROM t_outbox_event WHERE id = $1`
)

const eventColumns = 17

// appendSizes are how many events one statement may insert. A fixed few, so
// that each is prepared once.
var appendSizes = [...]int{64, 8, 1}

// appendQueries are the statements for each of appendSizes: for events whose ids
// are new, and for those whose ids the caller has chosen, of an outbox that is
// one table and of one in partitions.
type appendQueries struct{ fresh, given, partitioned [len(appendSizes)]string }

func newAppendQueries() (q appendQueries) {
	for i, n := range appendSizes {
		b := []byte(insertEvents)
		for p := range n * eventColumns {
			switch {
			case p == 0:
				b = append(b, '(')
			case p%eventColumns == 0:
				b = append(b, "),("...)
			default:
				b = append(b, ',')
			}
			b = strconv.AppendInt(append(b, '$'), int64(p+1), 10)
		}
		q.fresh[i] = string(append(b, ')'))
		q.given[i] = q.fresh[i] + unlessKnown
		q.partitioned[i] = q.fresh[i] + unlessAny
	}
	return q
}

// Append implements settle.Outbox. tx may be any transaction on the database,
// also one of a pool or a driver that is not the store's. On an error of an
// event nothing of this call is stored, and the transaction can go on or be
// rolled back; after an error of the database it can only be rolled back.
func (s *Store) Append(ctx context.Context, tx *sql.Tx, events ...*settle.Event) error {
	return s.append(ctx, sqlTx{tx}, events)
}

// appending is a transaction of some driver.
type appending interface {
	// insert runs one of appendQueries.given and calls each with the rows stored.
	insert(ctx context.Context, query string, args []any, each func(id int64, eventID string)) error
	exec(ctx context.Context, query string, args ...any) error
}

type sqlTx struct{ *sql.Tx }

func (t sqlTx) insert(ctx context.Context, query string, args []any, each func(int64, string)) error {
	rows, err := t.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var id int64
		var eventID string
		if err := rows.Scan(&id, &eventID); err != nil {
			return err
		}
		each(id, eventID)
	}
	return rows.Err()
}

func (t sqlTx) exec(ctx context.Context, query string, args ...any) error {
	_, err := t.ExecContext(ctx, query, args...)
	return err
}

func (s *Store) append(ctx context.Context, tx appending, events []*settle.Event) error {
	fresh, err := s.prepare(events)
	if err != nil {
		return err
	}
	if fresh {
		return s.insertFresh(ctx, tx, events)
	}
	if s.partitioned.Load() {
		return s.insertPartitioned(ctx, tx, events)
	}
	stored := make([]int64, 0, len(events))
	err = s.insertGiven(ctx, tx, events, &stored)
	if hasState(err, stateNoSuchConflict) {
		s.partitioned.Store(true)
		return fmt.Errorf("append %d events: the outbox has been divided into partitions since this program began; try again: %w", len(events), err)
	}
	if errors.Is(err, settle.ErrDuplicateEvent) {
		// Nobody else sees them before the commit: their ids are never used.
		for _, id := range stored {
			if undo := tx.exec(ctx, takeBack, id); undo != nil {
				return fmt.Errorf("append %d events: %w", len(events), errors.Join(err, undo))
			}
		}
	}
	return err
}

// prepare makes events ready to be stored. They are fresh when none had an id.
func (s *Store) prepare(events []*settle.Event) (fresh bool, err error) {
	if s.adopted != nil {
		return false, fmt.Errorf("append %d events: the outbox of this schema is %s, whose columns are its owner's: insert into it", len(events), s.adopted.plainName())
	}
	now := s.now()
	fresh = true
	for _, e := range events {
		fresh = fresh && e.ID == ""
		if err := e.Prepare(now); err != nil {
			return false, err
		}
	}
	return fresh, nil
}

func (s *Store) insertFresh(ctx context.Context, tx appending, events []*settle.Event) error {
	args := make([]any, 0, eventColumns*min(len(events), appendSizes[0]))
	for i, size := range appendSizes {
		for ; len(events) >= size; events = events[size:] {
			args = appendEvents(args[:0], events[:size])
			if err := tx.exec(ctx, s.appends.fresh[i], args...); err != nil {
				return fmt.Errorf("append %d events: %w", len(events), err)
			}
		}
	}
	return nil
}

func (s *Store) insertGiven(ctx context.Context, tx appending, events []*settle.Event, stored *[]int64) error {
	args := make([]any, 0, eventColumns*min(len(events), appendSizes[0]))
	for i, size := range appendSizes {
		for ; len(events) >= size; events = events[size:] {
			args = appendEvents(args[:0], events[:size])
			a := answer{of: events[:size]}
			err := tx.insert(ctx, s.appends.given[i], args, func(id int64, eventID string) {
				*stored = append(*stored, id)
				a.row(eventID)
			})
			if err != nil {
				return fmt.Errorf("append %d events: %w", len(events), err)
			}
			if err := a.err(); err != nil {
				return err
			}
		}
	}
	return nil
}

// answer compares the rows that were stored with the events that were to be:
// the first that is missing was there before.
type answer struct {
	of    []*settle.Event
	next  int
	lacks bool
}

func (a *answer) row(eventID string) {
	if a.lacks = a.lacks || a.next == len(a.of) || a.of[a.next].ID != eventID; !a.lacks {
		a.next++
	}
}

func (a *answer) err() error {
	if a.next == len(a.of) {
		return nil
	}
	e := a.of[a.next]
	return fmt.Errorf("append event %s of type %q: %w", e.ID, e.Type, settle.ErrDuplicateEvent)
}

func appendEvents(args []any, events []*settle.Event) []any {
	for _, e := range events {
		args = appendEvent(args, e)
	}
	return args
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
