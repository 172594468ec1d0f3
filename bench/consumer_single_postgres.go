package main

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
)

func singleOnPostgres() applier { return single(scripted(consumeLogPostgres), applySingleOnPostgres) }

// addOnePostgres is the effect of one event, in the transaction of the one who asks.
const addOnePostgres = `INSERT INTO account (key, amount) VALUES ($1, 1) ON CONFLICT (key) DO UPDATE SET amount = account.amount + 1`

const recordOnePostgres = `INSERT INTO consume_log (consumer_group, event_id, event_type) VALUES ('bench', $1, $2) ON CONFLICT DO NOTHING`

func applySingleOnPostgres(ctx context.Context, url string, d delivery) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for _, e := range d.events {
		if err := applyOneOnPostgres(ctx, conn, e); err != nil {
			return err
		}
	}
	return nil
}

func applyOneOnPostgres(ctx context.Context, conn *pgx.Conn, e *settle.Event) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	recorded, err := tx.Exec(ctx, recordOnePostgres, e.ID, e.Type)
	if err != nil {
		return err
	}
	if recorded.RowsAffected() > 0 {
		if _, err := tx.Exec(ctx, addOnePostgres, e.AggregateID); err != nil {
			return err
		}
	}
	// Crash here: nothing of it is kept, and it is delivered again.
	return tx.Commit(ctx)
}
