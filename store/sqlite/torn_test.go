package sqlite

import (
	"context"
	"path/filepath"
	"testing"
	"time"
)

// A statement that is interrupted makes SQLite roll the whole transaction back
// and go on in autocommit: what the same business function writes after it
// would be kept alone.
func TestATransactionThatTheDatabaseRolledBackTakesNoMoreStatements(t *testing.T) {
	ctx := t.Context()
	s, err := Open(ctx, filepath.Join(t.TempDir(), "x.db"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := s.DB().ExecContext(ctx, `CREATE TABLE t (n INTEGER)`); err != nil {
		t.Fatal(err)
	}
	tx, err := s.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO t VALUES (1)`); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err = tx.ExecContext(short, `INSERT INTO t WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 100000000) SELECT n FROM c`)
	if err == nil {
		t.Fatal("the statement was not interrupted")
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO t VALUES (2)`); err == nil {
		t.Error("a statement after the rollback is accepted")
	}
	if err := tx.Commit(); err == nil {
		t.Error("the commit of a transaction that is gone is accepted")
	}
	var n int
	if err := s.Reader().QueryRowContext(ctx, `SELECT count(*) FROM t`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows are kept, %v; want none", n, err)
	}
	if _, err := s.DB().ExecContext(ctx, `INSERT INTO t VALUES (3)`); err != nil {
		t.Errorf("the next statement: %v", err)
	}
}
