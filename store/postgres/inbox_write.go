package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const writeBounds = `SELECT set_config('lock_timeout', $1, true), set_config('statement_timeout', $2, true), set_config('idle_in_transaction_session_timeout', $3, true)`

// write runs f in a transaction of pool, and again, a few times, when others
// were in the way: f begins anew then. After an error of the commit it is not
// run again.
func (s *Store) write(ctx context.Context, pool *pgxpool.Pool, f func(tx pgx.Tx) error) error {
	err := s.writeOnce(ctx, pool, f)
	for try := 1; faultOf(err) == faultConflict && pause(ctx, try); try++ {
		err = s.writeOnce(ctx, pool, f)
	}
	s.left(err)
	return explain(err)
}

func (s *Store) writeOnce(ctx context.Context, pool *pgxpool.Pool, f func(tx pgx.Tx) error) error {
	tx, err := pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, writeBounds, ms(s.cfg.LockTimeout), ms(s.cfg.StatementTimeout), ms(s.cfg.IdleTimeout)); err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit(ctx)
}
