package sqlite

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
)

func TestAStatementMayBeUsedWhileItsOwnRowsAreRead(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "a.db"), Config{})
	const query = "SELECT value FROM json_each(?)"
	err := inTx(t.Context(), s, func(tx *sql.Tx) error {
		pairs := 0
		outer, err := tx.QueryContext(t.Context(), query, "[1,2,3]")
		if err != nil {
			return err
		}
		defer func() { _ = outer.Close() }()
		for outer.Next() {
			inner, err := tx.QueryContext(t.Context(), query, "[4,5]")
			if err != nil {
				return err
			}
			for inner.Next() {
				pairs++
			}
			if err := inner.Close(); err != nil {
				return err
			}
		}
		if pairs != 6 {
			t.Errorf("%d pairs, want 6", pairs)
		}
		return outer.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSeveralStatementsInOneTextAllRun(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "a.db"), Config{})
	for range 2 {
		if _, err := s.DB().ExecContext(t.Context(), "DROP TABLE IF EXISTS t; CREATE TABLE t (a); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)"); err != nil {
			t.Fatal(err)
		}
		var n int
		if err := s.DB().QueryRowContext(t.Context(), "SELECT sum(a) FROM t").Scan(&n); err != nil || n != 3 {
			t.Fatalf("%d, %v", n, err)
		}
	}
}

func TestAKnownStatementSeesAChangedTable(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "a.db"), Config{})
	exec := func(query string) {
		t.Helper()
		if _, err := s.DB().ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	columns := func() int {
		t.Helper()
		rows, err := s.DB().QueryContext(t.Context(), "SELECT * FROM t")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = rows.Close() }()
		names, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	exec("CREATE TABLE t (a)")
	exec("INSERT INTO t VALUES (1)")
	if n := columns(); n != 1 {
		t.Fatalf("%d columns", n)
	}
	exec("ALTER TABLE t ADD COLUMN b")
	if n := columns(); n != 2 {
		t.Errorf("%d columns after one was added", n)
	}
}

func TestStatementsAreRememberedInBounds(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "a.db"), Config{})
	rows, err := s.DB().QueryContext(t.Context(), "SELECT value FROM json_each('[1,2]')")
	if err != nil {
		t.Fatal(err)
	}
	if !rows.Next() {
		t.Fatal(rows.Err())
	}
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range 3 * maxStatements {
		var n int
		if err := s.DB().QueryRowContext(t.Context(), fmt.Sprint("SELECT ", i)).Scan(&n); err != nil || n != i {
			t.Fatalf("%d, %v", n, err)
		}
	}
	c, err := s.DB().Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := c.Raw(func(dc any) error {
		if n := len(dc.(*conn).cached); n > maxStatements {
			t.Errorf("%d statements are remembered", n)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
