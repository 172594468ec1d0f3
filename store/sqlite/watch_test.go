package sqlite

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/settlemq/settle"
)

func TestWaitReturnsWhenAnyProcessCommits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s, other := openTest(t, path, Config{}), openTest(t, path, Config{})
	one, two := s.Log(), s.Log()
	wait := func(l *Log, limit time.Duration) bool {
		t.Helper()
		begun := time.Now()
		if err := l.Wait(t.Context(), limit); err != nil {
			t.Fatal(err)
		}
		return time.Since(begun) < limit
	}
	wait(one, time.Minute)
	wait(two, time.Minute)
	if wait(one, 30*time.Millisecond) {
		t.Error("returns although nothing has happened")
	}
	for name, by := range map[string]*Store{"this process": s, "another process": other} {
		if err := inTx(t.Context(), by, func(tx *sql.Tx) error {
			return by.Append(t.Context(), tx, &settle.Event{Type: "a", AggregateID: "k", Payload: []byte(`{}`)})
		}); err != nil {
			t.Fatal(err)
		}
		// The commit was before the wait: it is not forgotten.
		if !wait(one, time.Minute) || !wait(two, time.Minute) {
			t.Errorf("sleeps through a commit of %s", name)
		}
		for range 2 { // a ring and a new version may count as two
			wait(one, 10*time.Millisecond)
		}
		if wait(one, 30*time.Millisecond) {
			t.Errorf("a commit of %s keeps on waking", name)
		}
	}
}

func TestWaitEndsWithItsStore(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "a.db"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	l := s.Log()
	if err := l.Wait(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Wait(t.Context(), time.Minute); err == nil {
		t.Error("waits for a store that is closed")
	}
}
