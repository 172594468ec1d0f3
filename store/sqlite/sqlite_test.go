package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle/store/migrate"
)

func openTest(t *testing.T, path string, cfg Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestOpenCreatesAFileAndOpensItAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "o r%d?er#.db")
	for range 2 {
		s, err := Open(t.Context(), path, Config{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Fatal(err)
		}
		if got := s.Service(); got != "o r%d?er#" {
			t.Errorf("service is %q", got)
		}
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	newer := filepath.Join(t.TempDir(), "newer.db")
	s := openTest(t, newer, Config{})
	if _, err := s.DB().ExecContext(t.Context(), "INSERT INTO "+migrate.Table+" (version_id, is_applied) VALUES (99999, 1)"); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), "text.db")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is a shopping list\n", 100)), 0o644); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(text)
	for name, c := range map[string]struct{ path, says string }{
		"a directory that does not exist":      {filepath.Join(t.TempDir(), "a", "b.db"), "does not exist"},
		"a file that is not a database":        {text, "not a SQLite database"},
		"a directory in the place of the file": {t.TempDir(), "not a regular file"},
		"a schema newer than the program":      {newer, "newer than this program"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.Context(), c.path, Config{})
			if err == nil {
				_ = s.Close()
				t.Fatal("opens")
			}
			if !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.path) {
				t.Errorf("says %q", err)
			}
		})
	}
	if after, _ := os.ReadFile(text); string(after) != string(before) {
		t.Error("the file that is not a database was changed")
	}
}

func TestAReaderCanNotWrite(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "a.db"), Config{})
	if _, err := s.Reader().ExecContext(t.Context(), "CREATE TABLE t (a)"); err == nil {
		t.Error("it can")
	}
}

func TestAWriterWaitsForTheWriterOfAnotherProcessAndGivesUpWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	// Two stores are two processes to the lock file: each has it open itself.
	one, other := openTest(t, path, Config{}), openTest(t, path, Config{})
	tx, err := one.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := other.Begin(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("begins beside another writer: %v", err)
	}
	began := make(chan error, 1)
	go func() {
		second, err := other.Begin(context.WithoutCancel(ctx))
		if err == nil {
			err = second.Rollback()
		}
		began <- err
	}()
	select {
	case err := <-began:
		t.Fatalf("did not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-began; err != nil {
		t.Fatal(err)
	}
	// A lock that was granted to the caller who had given up is not kept.
	if _, err := one.DB().ExecContext(t.Context(), "CREATE TABLE t (a)"); err != nil {
		t.Fatal(err)
	}
}

func TestWritersInTurnDoNotStarve(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	stores := []*Store{openTest(t, path, Config{}), openTest(t, path, Config{}), openTest(t, path, Config{})}
	if _, err := stores[0].DB().ExecContext(t.Context(), "CREATE TABLE t (who)"); err != nil {
		t.Fatal(err)
	}
	const rounds = 30
	done := make(chan error, len(stores))
	for who, s := range stores {
		go func() {
			for range rounds {
				if err := inTx(t.Context(), s, func(tx *sql.Tx) error {
					_, err := tx.ExecContext(t.Context(), "INSERT INTO t VALUES (?)", who)
					return err
				}); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range stores {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	var n int
	if err := stores[0].Reader().QueryRowContext(t.Context(), "SELECT count(*) FROM t").Scan(&n); err != nil || n != rounds*len(stores) {
		t.Errorf("%d rows, %v", n, err)
	}
}

func inTx(ctx context.Context, s *Store, do func(*sql.Tx) error) error {
	tx, err := s.Begin(ctx)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func TestManyThatOpenANewFileAtOnceMigrateItOnce(t *testing.T) {
	const n = 6
	for round := range 10 {
		path := filepath.Join(t.TempDir(), fmt.Sprintf("%d.db", round))
		done := make(chan error, n)
		for range n {
			go func() {
				s, err := Open(t.Context(), path, Config{})
				if err == nil {
					err = s.Close()
				}
				done <- err
			}()
		}
		for range n {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
}

func TestAFileThatCanNotBeWrittenIsNamedSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	openTest(t, path, Config{})
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(t.Context(), "CREATE TABLE t (a)")
	if err == nil || !strings.Contains(explain(err).Error(), "the file is read-only") {
		t.Errorf("says %v", explain(err))
	}
	if os.Geteuid() == 0 {
		return // root may write whatever the mode says
	}
	if err := os.Chmod(path, 0o444); err != nil {
		t.Fatal(err)
	}
	if err := inspect(path); err == nil || !strings.Contains(err.Error(), "may not write") {
		t.Errorf("says %v", err)
	}
}

func TestCloseDoesNotWaitForTheWriterOfAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	busy := openTest(t, path, Config{})
	tx, err := busy.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	q, err := openQueue(path + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error, 1)
	go func() { waits <- q.acquire(ctx) }()
	for wanted := false; !wanted; {
		q.mu.Lock()
		wanted = q.wanted
		q.mu.Unlock()
	}
	cancel()
	if err := <-waits; !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that was called off says %v", err)
	}
	if err := q.close(); err != nil {
		t.Error(err)
	}
}

func TestAForeignFileIsLeftAsItIsWhereTheTablesMustExistAlready(t *testing.T) {
	dir := t.TempDir()
	foreign, own := filepath.Join(dir, "foreign.db"), filepath.Join(dir, "own.db")
	db, err := sql.Open("sqlite", foreign)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "CREATE TABLE precious (a)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(foreign)
	for _, path := range []string{foreign, filepath.Join(dir, "missing.db")} {
		if s, err := Open(t.Context(), path, Config{Existing: true}); err == nil {
			_ = s.Close()
			t.Errorf("opens %s", path)
		} else if path == foreign && !errors.Is(err, ErrForeign) {
			t.Errorf("says %v, want ErrForeign", err)
		}
	}
	if after, _ := os.ReadFile(foreign); string(after) != string(before) {
		t.Error("the foreign file was changed")
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("there are %d files now", len(files))
	}
	openTest(t, own, Config{})
	openTest(t, own, Config{Existing: true})
}
