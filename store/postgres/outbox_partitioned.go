package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
)

// Of an outbox in partitions each has its own index of event ids: an insert
// finds an id that is there in the same partition only. So ids which the caller
// has chosen are looked up before. Two transactions that store one id at the same
// moment, one in the last rows of a partition and one in the first of the next,
// do not see each other: that event is sent twice, under one id.
const (
	// A row may be left out for its event id, or for an id that the sequence gives
	// once more: which of the two is asked afterwards.
	unlessAny = ` ON CONFLICT DO NOTHING RETURNING id, event_id`

	knownEvents = `SELECT id, event_id FROM t_outbox_event WHERE event_id = ANY(ARRAY(SELECT json_array_elements_text($1::json)))`
)

// stateNoSuchConflict: no index makes event ids unique in the whole table.
const stateNoSuchConflict = "42P10"

// givenEvents is one call of Append on an outbox in partitions.
type givenEvents struct {
	of     []*settle.Event
	stored []int64
	// have are the event ids that were stored, or were there.
	have map[string]bool
}

// ids are the event ids as knownEvents takes them.
func (d *givenEvents) ids() string {
	all := make([]string, len(d.of))
	for i, e := range d.of {
		all[i] = e.ID
	}
	b, err := json.Marshal(all)
	if err != nil { // strings always encode
		return "[]"
	}
	return string(b)
}

func (d *givenEvents) found(_ int64, eventID string) { d.have[eventID] = true }

func (d *givenEvents) insert(id int64, eventID string) {
	d.stored = append(d.stored, id)
	d.have[eventID] = true
}

// twice refuses an event id that is in the call more than once.
func (d *givenEvents) twice() error {
	d.have = make(map[string]bool, len(d.of))
	for _, e := range d.of {
		if d.have[e.ID] {
			return duplicate(e)
		}
		d.have[e.ID] = true
	}
	clear(d.have)
	return nil
}

// known refuses an event id that was there before.
func (d *givenEvents) known() error {
	if i := slices.IndexFunc(d.of, func(e *settle.Event) bool { return d.have[e.ID] }); i >= 0 {
		return duplicate(d.of[i])
	}
	return nil
}

// missing refuses what was left out, when have tells which event ids are there.
func (d *givenEvents) missing() error {
	if len(d.stored) == len(d.of) {
		return nil
	}
	for _, e := range d.of {
		if !d.have[e.ID] {
			return fmt.Errorf("append event %s of type %q: the sequence of t_outbox_event.id gives an id that is there: SELECT setval(pg_get_serial_sequence('t_outbox_event', 'id'), (SELECT max(id) FROM t_outbox_event))", e.ID, e.Type)
		}
	}
	return d.known()
}

func duplicate(e *settle.Event) error {
	return fmt.Errorf("append event %s of type %q: %w", e.ID, e.Type, settle.ErrDuplicateEvent)
}

func (s *Store) insertPartitioned(ctx context.Context, tx appending, events []*settle.Event) error {
	d := givenEvents{of: events}
	if err := d.twice(); err != nil {
		return err
	}
	err := tx.insert(ctx, knownEvents, []any{d.ids()}, d.found)
	if err == nil {
		err = d.known()
	}
	if err != nil {
		return err
	}
	args := make([]any, 0, eventColumns*min(len(events), appendSizes[0]))
	left := events
	for i, size := range appendSizes {
		for ; len(left) >= size; left = left[size:] {
			args = appendEvents(args[:0], left[:size])
			if err := tx.insert(ctx, s.appends.partitioned[i], args, d.insert); err != nil {
				return fmt.Errorf("append %d events: %w", len(events), err)
			}
		}
	}
	if len(d.stored) == len(events) {
		return nil
	}
	if err := tx.insert(ctx, knownEvents, []any{d.ids()}, d.found); err != nil {
		return fmt.Errorf("append %d events: %w", len(events), err)
	}
	// Nobody else sees them before the commit: their ids are never used.
	for _, id := range d.stored {
		if err := tx.exec(ctx, takeBack, id); err != nil {
			return fmt.Errorf("append %d events: %w", len(events), err)
		}
	}
	return d.missing()
}

// queuePartitioned adds to b what insertPartitioned does.
func (s *Store) queuePartitioned(b *pgx.Batch, events []*settle.Event) error {
	d := &givenEvents{of: events}
	if err := d.twice(); err != nil {
		return err
	}
	reading := func(each func(int64, string), then func() error) func(pgx.Rows) error {
		return func(rows pgx.Rows) error {
			var id int64
			var eventID string
			_, err := pgx.ForEachRow(rows, []any{&id, &eventID}, func() error {
				each(id, eventID)
				return nil
			})
			if err != nil {
				return err
			}
			return then()
		}
	}
	b.Queue(knownEvents, d.ids()).Query(reading(d.found, d.known))
	left := events
	for i, size := range appendSizes {
		for ; len(left) >= size; left = left[size:] {
			b.Queue(s.appends.partitioned[i], appendEvents(make([]any, 0, eventColumns*size), left[:size])...).
				Query(reading(d.insert, func() error { return nil }))
		}
	}
	b.Queue(knownEvents, d.ids()).Query(reading(d.found, d.missing))
	return nil
}
