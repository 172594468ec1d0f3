package main

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
)

// single is the idempotent consumer as most write it: a transaction for each
// message, in which the message id is recorded first and the effect follows if
// it was new. One connection, so that the order of a key holds.
func single() applier {
	return applier{name: singleName, title: "one transaction per message", create: scripted(consumeLog), apply: applySingle, share: 40}
}

const singleName = "single"

const recordOne = `INSERT INTO consume_log (consumer_group, event_id, event_type) VALUES ('bench', $1, $2) ON CONFLICT DO NOTHING`

func applySingle(ctx context.Context, url string, d delivery) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for _, e := range d.events {
		if err := applyOne(ctx, conn, e); err != nil {
			return err
		}
	}
	return nil
}

func applyOne(ctx context.Context, conn *pgx.Conn, e *settle.Event) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	recorded, err := tx.Exec(ctx, recordOne, e.ID, e.Type)
	if err != nil {
		return err
	}
	if recorded.RowsAffected() > 0 {
		if _, err := tx.Exec(ctx, addOne, e.AggregateID); err != nil {
			return err
		}
	}
	// Crash here: nothing of it is kept, and it is delivered again.
	return tx.Commit(ctx)
}
