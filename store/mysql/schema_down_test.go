package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/settlemq/settle/store/migrate"
)

const insertOne = `INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload) VALUES (?, 'x', 'k', '{}')`

// settled makes a database in which everything is delivered, up to an id that is
// still to be given.
func settled(t *testing.T) (at string, s *Store) {
	t.Helper()
	at = DatabaseForTest(t)
	s = OpenForTest(t, at, Config{})
	for i := range 10 {
		s.plant(t, insertOne, fmt.Sprint("sent-", i))
	}
	s.plant(t, `INSERT INTO t_outbox_checkpoint (lane, epoch, number, readers, created_at) VALUES (0, 1, 1, '[{"cursor":10,"open":[]}]', UTC_TIMESTAMP(6))`)
	return at, s
}

func schemaForTest(t *testing.T, at string) *migrate.Schema {
	t.Helper()
	schema, err := Schema(t.Context(), at, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = schema.Close() })
	return schema
}

// A writer begins at any moment of a way down. What it has committed is there,
// or it has failed.
func TestAWayDownLosesNothingOfAWriter(t *testing.T) {
	t.Parallel()
	at, s := settled(t)
	schema := schemaForTest(t, at)
	for try := range 30 {
		var stored atomic.Int64
		var group sync.WaitGroup
		stop := make(chan struct{})
		group.Go(func() {
			time.Sleep(time.Duration(try) * 4 * time.Millisecond)
			for i := 0; ; i++ {
				if _, err := s.DB().ExecContext(t.Context(), insertOne, fmt.Sprintf("late-%d-%d", try, i)); err != nil {
					if !hasCode(err, codeNoTable) {
						t.Errorf("the writer is told %v", err)
					}
					return
				}
				stored.Add(1)
				select {
				case <-stop:
					return
				default:
				}
			}
		})
		_, err := schema.Down(t.Context(), 0)
		close(stop)
		group.Wait()
		if err == nil {
			if n := stored.Load(); n > 0 {
				t.Fatalf("try %d: %d events were stored and are lost", try, n)
			}
			return
		}
		if !errors.Is(err, migrate.ErrUndelivered) {
			t.Fatalf("try %d: %v", try, err)
		}
		var there int64
		if err := s.DB().QueryRowContext(t.Context(), "SELECT count(*) FROM t_outbox_event WHERE event_id LIKE ?", fmt.Sprintf("late-%d-%%", try)).Scan(&there); err != nil || there != stored.Load() {
			t.Fatalf("try %d: of %d events %d are there, %v", try, stored.Load(), there, err)
		}
		s.plant(t, "DELETE FROM t_outbox_event WHERE event_id LIKE 'late-%'")
	}
}

func TestWhatIsStoredBetweenTheTwoLooksOfAWayDownIsFoundAndKept(t *testing.T) {
	t.Parallel()
	_, s := settled(t)
	w := wayDown{s.db, guardUndelivered}
	for name, between := range map[string]string{
		"an event":               "INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload) VALUES ('between', 'x', 'k', '{}')",
		"one in another's place": "UPDATE t_outbox_event SET id = 99 WHERE id = 3",
		"an order to send again": "INSERT INTO t_outbox_extra (id, reason, added_at) VALUES (3, 'resend', UTC_TIMESTAMP(6))",
	} {
		var before string
		err := snapshot(t.Context(), s.db, func(tx *sql.Tx) (err error) {
			before, err = w.stock(t.Context(), tx, "")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		s.plant(t, between)
		if err := w.rename(t.Context(), "", heldName); err != nil {
			t.Fatal(err)
		}
		if _, err := s.DB().ExecContext(t.Context(), insertOne, "kept out"); !hasCode(err, codeNoTable) {
			t.Errorf("a writer is told %v; want that the table is not there", err)
		}
		if err := w.lastLook(t.Context(), before); !errors.Is(err, migrate.ErrUndelivered) {
			t.Errorf("%s: the last look finds nothing: %v", name, err)
		}
		if err := w.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.plant(t, insertOne, "behind "+name)
	}
}

func TestAWayDownThatWasStoppedBeforeItDeletedLetsWritersWriteAgain(t *testing.T) {
	t.Parallel()
	at, s := settled(t)
	if err := (wayDown{s.db, guardUndelivered}).rename(t.Context(), "", heldName); err != nil { // and the process is killed
		t.Fatal(err)
	}
	again := OpenForTest(t, at, Config{})
	again.plant(t, insertOne, "again")
	if err := (wayDown{s.db, guardUndelivered}).rename(t.Context(), "", heldName); err != nil {
		t.Fatal(err)
	}
	if _, err := schemaForTest(t, at).Down(t.Context(), 0); !errors.Is(err, migrate.ErrUndelivered) {
		t.Errorf("the next way down says %v; want what is not delivered", err)
	}
	again.plant(t, insertOne, "and again")
}

func TestAWayDownThatHasBegunToDeleteIsEndedAndNothingElse(t *testing.T) {
	t.Parallel()
	at, s := settled(t)
	schema := schemaForTest(t, at)
	if err := (wayDown{s.db, guardUndelivered}).Begin(t.Context(), 0); err != nil { // and the process is killed
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), at, Config{}); !errors.Is(err, migrate.ErrHalfDown) {
		t.Errorf("Open says %v", err)
	}
	if _, err := schema.Up(t.Context()); !errors.Is(err, migrate.ErrHalfDown) {
		t.Errorf("Up says %v", err)
	}
	if _, err := schema.Down(t.Context(), 4); !errors.Is(err, migrate.ErrHalfDown) {
		t.Errorf("a way down to 4 says %v", err)
	}
	if _, err := schema.Down(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	wantTables(t, s, 0)
}

// wantTables counts the tables and views that are there.
func wantTables(t *testing.T, s *Store, want int) {
	t.Helper()
	var n int
	if err := s.DB().QueryRowContext(t.Context(), "SELECT count(*) FROM information_schema.tables WHERE table_schema = DATABASE()").Scan(&n); err != nil || n != want {
		t.Errorf("%d tables and views are there, %v; want %d", n, err, want)
	}
}

// stopped returns the migrations of which one stops behind one of its
// statements, and how many statements that way has.
func stopped(t *testing.T, files fs.FS, file, way string, behind int) (broken fstest.MapFS, statements int) {
	t.Helper()
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	broken = fstest.MapFS{}
	for _, name := range names {
		b, err := fs.ReadFile(files, name)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		if name == file {
			up, down, _ := strings.Cut(text, "-- +goose Down\n")
			part := &up
			if way == "Down" {
				part = &down
			}
			parts := strings.SplitAfter(*part, ";\n")
			if strings.TrimSpace(parts[len(parts)-1]) == "" {
				parts = parts[:len(parts)-1]
			}
			statements = len(parts)
			*part = strings.Join(parts[:behind], "") + "SELECT 1 FROM nowhere;\n" + strings.Join(parts[behind:], "")
			text = up + "-- +goose Down\n" + down
		}
		broken[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return broken, statements
}

// Each statement is committed by itself. A migration that is killed behind any
// of them goes on, up as down. (The plain run takes every fifth.)
func TestAMigrationGoesOnBehindWhicheverStatementItWasKilled(t *testing.T) {
	t.Parallel()
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	files, err := s.server.layout(false)
	if err != nil {
		t.Fatal(err)
	}
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	every := 5
	if os.Getenv("SETTLE_TEST_ALL") != "" {
		every = 1
	}
	var all int
	if err := s.DB().QueryRowContext(t.Context(), "SELECT count(*) FROM information_schema.tables WHERE table_schema = DATABASE()").Scan(&all); err != nil {
		t.Fatal(err)
	}
	run := func(way string, files fs.FS) error {
		schema := migrate.NewSchema(migrate.Source{DB: s.db, Dialect: migrate.MySQL, Files: files, Stepwise: wayDown{s.db, guardUndelivered},
			Lock: func(ctx context.Context) (func() error, error) { return lockMigrations(ctx, s.db) }})
		if way == "Down" {
			_, err := schema.Down(t.Context(), 0)
			return err
		}
		_, err := schema.Up(t.Context())
		return err
	}
	for _, way := range []string{"Down", "Up"} {
		want := all
		if way == "Down" {
			want = 0
			slices.Reverse(names) // the last goes first
		}
		for _, name := range names {
			for behind, n := 0, 1; behind < n; behind += every {
				broken, statements := stopped(t, files, name, way, behind)
				n = statements
				if err := run(way, broken); err == nil || !strings.Contains(err.Error(), "nowhere") {
					t.Fatalf("%s of %s behind statement %d: %v", way, name, behind, err)
				}
			}
		}
		if err := run(way, files); err != nil {
			t.Fatal(err)
		}
		wantTables(t, s, want)
		slices.Sort(names)
	}
	s.plant(t, insertOne, "an event")
}

func TestManyProcessesThatMigrateAtOnceDoItOnce(t *testing.T) {
	t.Parallel()
	at := DatabaseForTest(t)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			s, err := Open(t.Context(), at, Config{})
			if err != nil {
				t.Errorf("one of them: %v", err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	s := OpenForTest(t, at, Config{})
	var versions, different int
	if err := s.DB().QueryRowContext(t.Context(), "SELECT count(*), count(DISTINCT version_id) FROM settle_schema").Scan(&versions, &different); err != nil || versions != different || versions < 5 {
		t.Errorf("%d migrations are noted, %d different ones, %v", versions, different, err)
	}
}
