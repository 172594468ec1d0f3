package mysql

import (
	"context"
	"database/sql"
)

// write runs f in a transaction of pool, whose statements are bounded, and
// again, a few times, when others were in the way: f begins anew then. After an
// error of the commit it is not run again.
func (s *Store) write(ctx context.Context, pool *sql.DB, f func(tx *sql.Tx) error) error {
	err := writeOnce(ctx, pool, f)
	for try := 1; faultOf(err) == faultConflict && pause(ctx, try); try++ {
		err = writeOnce(ctx, pool, f)
	}
	return explain(err)
}

func writeOnce(ctx context.Context, pool *sql.DB, f func(tx *sql.Tx) error) error {
	tx, err := pool.BeginTx(ctx, &readCommitted)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return &commitError{err}
	}
	return nil
}
