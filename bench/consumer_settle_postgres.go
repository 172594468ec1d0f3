package main

import (
	"context"
	"database/sql"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/postgres"
)

func settleEachOnPostgres() applier  { return settleEach(openInboxOnPostgres, addOnePostgres) }
func settleBatchOnPostgres() applier { return settleBatch(openInboxOnPostgres, addManyOnPostgres) }

func openInboxOnPostgres(ctx context.Context, at string) (settle.Inbox[*sql.Tx], func() error, error) {
	store, err := postgres.Open(ctx, at, postgres.Config{})
	if err != nil {
		return nil, nil, err
	}
	return store.Inbox(), store.Close, nil
}

const addManyPostgres = `INSERT INTO account (key, amount) SELECT key, count(*) FROM unnest($1::text[]) AS k(key) GROUP BY key ORDER BY key
ON CONFLICT (key) DO UPDATE SET amount = account.amount + excluded.amount`

func addManyOnPostgres(ctx context.Context, tx *sql.Tx, keys []string) error {
	_, err := tx.ExecContext(ctx, addManyPostgres, keys)
	return err
}
