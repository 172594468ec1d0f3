package mysql

import (
	"context"
	"database/sql"
)

// write runs f in a transaction of pool, whose statements are bounded, and
// again, a few times, when others were in the way: f begins anew then. So it does
// after a commit that a cluster has refused (1213, 3101), of which nothing is
// kept; after any other error of a commit it is not run again.
func (s *Store) write(ctx context.Context, pool *sql.DB, f func(tx *sql.Tx) error) error {
	err := writeOnce(ctx, pool, f)
	for try := 1; faultOf(err) == faultConflict && pause(ctx, try); try++ {
		err = writeOnce(ctx, pool, f)
	}
	s.left(err)
	return explain(err)
}

// left lets go of all connections that are not in use when the server that they
// lead to can't be written to any more: the name in the URL may lead to another
// one by now. Whoever uses one gives it back first and calls left then.
func (s *Store) left(err error) {
	if !hasCode(err, codeReadOnly) && !hasCode(err, codeReadOnlyMode) && !hasCode(err, codeReadOnlyTx) && !hasCode(err, codeNotReady) {
		return
	}
	for db, idle := range map[*sql.DB]int{s.own: ownConns, s.db: s.cfg.MaxConns, s.reader: s.cfg.MaxConns, s.consume: s.cfg.MaxConns} {
		db.SetMaxIdleConns(0)
		db.SetMaxIdleConns(idle)
	}
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
