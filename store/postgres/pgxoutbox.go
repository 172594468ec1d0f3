package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
)

// PgxOutbox is the outbox for transactions of pgx itself.
type PgxOutbox struct{ s *Store }

var _ settle.Outbox[pgx.Tx] = PgxOutbox{}

// Pgx returns the outbox for transactions of pgx itself. They may come from any
// pool on the database.
func (s *Store) Pgx() PgxOutbox { return PgxOutbox{s} }

// Append implements settle.Outbox; it is like Store.Append.
func (o PgxOutbox) Append(ctx context.Context, tx pgx.Tx, events ...*settle.Event) error {
	return o.s.append(ctx, pgxTx{tx}, events)
}

// Queue adds the statements that store events to b, behind those of the
// business, so that they cost no round trip to the database. Send b in the
// transaction, and leave their answers to Close:
//
//	b.Queue(`INSERT INTO orders …`)
//	err := outbox.Queue(&b, event)
//	…
//	err = tx.SendBatch(ctx, &b).Close()
//
// Its own error is an *InvalidEventError, and nothing was queued. That of Close
// is settle.ErrDuplicateEvent where the database has the event; like any other
// error of Close it is to be followed by a rollback.
func (o PgxOutbox) Queue(b *pgx.Batch, events ...*settle.Event) error {
	fresh, err := o.s.prepare(events)
	if err != nil {
		return err
	}
	if !fresh && o.s.partitioned.Load() {
		return o.s.queuePartitioned(b, events)
	}
	for i, size := range appendSizes {
		for ; len(events) >= size; events = events[size:] {
			args := appendEvents(make([]any, 0, eventColumns*size), events[:size])
			if fresh {
				b.Queue(o.s.appends.fresh[i], args...)
				continue
			}
			a := answer{of: events[:size]}
			b.Queue(o.s.appends.given[i], args...).Query(a.read)
		}
	}
	return nil
}

func (a *answer) read(rows pgx.Rows) error {
	var id int64
	var eventID string
	if _, err := pgx.ForEachRow(rows, []any{&id, &eventID}, func() error {
		a.row(eventID)
		return nil
	}); err != nil {
		return err
	}
	return a.err()
}

type pgxTx struct{ pgx.Tx }

func (t pgxTx) insert(ctx context.Context, query string, args []any, each func(int64, string)) error {
	rows, err := t.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	var id int64
	var eventID string
	_, err = pgx.ForEachRow(rows, []any{&id, &eventID}, func() error {
		each(id, eventID)
		return nil
	})
	return err
}

func (t pgxTx) exec(ctx context.Context, query string, args ...any) error {
	_, err := t.Exec(ctx, query, args...)
	return err
}
