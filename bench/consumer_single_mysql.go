package main

import (
	"context"
	"database/sql"

	"github.com/settlemq/settle"
)

func singleOnMySQL() applier { return single(scripted(consumeLogMySQL), applySingleOnMySQL) }

// addOneMySQL is the effect of one event, in the transaction of the one who asks.
const addOneMySQL = "INSERT INTO account (`key`, amount) VALUES (?, 1) ON DUPLICATE KEY UPDATE amount = amount + 1"

const recordOneMySQL = `INSERT IGNORE INTO consume_log (consumer_group, event_id, event_type) VALUES ('bench', ?, ?)`

func applySingleOnMySQL(ctx context.Context, at string, d delivery) error {
	db, conn, err := connectForWork(ctx, at)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	for _, e := range d.events {
		if err := applyOneOnMySQL(ctx, conn, e); err != nil {
			return err
		}
	}
	return nil
}

func applyOneOnMySQL(ctx context.Context, conn *sql.Conn, e *settle.Event) error {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	recorded, err := tx.ExecContext(ctx, recordOneMySQL, e.ID, e.Type)
	if err != nil {
		return err
	}
	if n, err := recorded.RowsAffected(); err != nil {
		return err
	} else if n > 0 {
		if _, err := tx.ExecContext(ctx, addOneMySQL, e.AggregateID); err != nil {
			return err
		}
	}
	// Crash here: nothing of it is kept, and it is delivered again.
	return tx.Commit()
}
