package main

import "context"

func deduplicatorOnMySQL() applier { return deduplicator(applyWatermillOnMySQL) }

func applyWatermillOnMySQL(ctx context.Context, at string, d delivery) error {
	db, conn, err := connectForWork(ctx, at)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	return onceEach(ctx, d, func(ctx context.Context, key string) error {
		tx, err := conn.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(ctx, addOneMySQL, key); err != nil {
			return err
		}
		// Crash here: the id was remembered before; were the memory shared, the
		// message would be lost. After the commit, it is applied again.
		return tx.Commit()
	})
}
