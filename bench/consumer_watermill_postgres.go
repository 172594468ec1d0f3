package main

import (
	"context"

	"github.com/jackc/pgx/v5"
)

func deduplicatorOnPostgres() applier { return deduplicator(applyWatermillOnPostgres) }

func applyWatermillOnPostgres(ctx context.Context, at string, d delivery) error {
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return onceEach(ctx, d, func(ctx context.Context, key string) error {
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(ctx) }()
		if _, err := tx.Exec(ctx, addOnePostgres, key); err != nil {
			return err
		}
		// Crash here: the id was remembered before; were the memory shared, the
		// message would be lost. After the commit, it is applied again.
		return tx.Commit(ctx)
	})
}
