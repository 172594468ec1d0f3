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
