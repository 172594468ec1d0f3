package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
)

// view runs f in a transaction that sees one committed state of the database
// and can't write, on a connection of those that people and consumers share.
func (s *Store) view(ctx context.Context, f func(tx pgx.Tx) error) error {
	return explain(pgx.BeginTxFunc(ctx, s.reading, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, f))
}

const (
	readControlVersion = `SELECT version FROM settle_control_version`
	readControls       = `SELECT kind, name FROM settle_control ORDER BY kind, name`
)

// Controls implements settle.Inbox.
func (in *Inbox) Controls(ctx context.Context) (settle.Controls, error) {
	var c settle.Controls
	err := in.s.view(ctx, func(tx pgx.Tx) error {
		if err := tx.QueryRow(ctx, readControlVersion).Scan(&c.Version); err != nil {
			return err
		}
		var r settle.Control
		return each(ctx, tx, []any{&r.Kind, &r.Name}, func() { c.Rows = append(c.Rows, r) }, readControls)
	})
	if err != nil {
		return settle.Controls{}, fmt.Errorf("read controls: %w", err)
	}
	return c, nil
}
