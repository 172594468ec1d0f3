package mysql

import (
	"errors"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

func leadTest(t *testing.T, l *Log) relay.Lease {
	t.Helper()
	lease, err := l.Lead(t.Context(), "me", 0, time.Hour)
	if err != nil || !lease.Held {
		t.Fatalf("%+v, %v", lease, err)
	}
	return lease
}

// A relay that goes on on another server, or behind a crash, by what it
// remembers would pass ids that are given again.
func TestWhatAnotherRunOfTheServerAnswersIsRefusedUntilTheNextLoad(t *testing.T) {
	t.Parallel()
	at := DatabaseForTest(t)
	l := OpenForTest(t, at, Config{}).Log()
	lease := leadTest(t, l)
	q := relay.PollQuery{MaxRows: 10, MaxBytes: 1 << 20}
	flushes := map[string]relay.Flush{
		"a position": {Checkpoint: relay.Checkpoint{Number: 1}},
		"more":       {Checkpoint: relay.Checkpoint{Number: 1}, Cold: []int64{1}},
	}
	if _, err := l.Load(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Poll(t.Context(), q); err != nil {
		t.Errorf("the same run: %v", err)
	}
	known := l.run
	l.run = "another"
	if _, err := l.Poll(t.Context(), q); !errors.Is(err, settle.ErrFenced) {
		t.Errorf("poll: %v, want ErrFenced", err)
	}
	for what, f := range flushes {
		if err := l.Commit(t.Context(), lease, f); !errors.Is(err, settle.ErrFenced) {
			t.Errorf("commit of %s: %v, want ErrFenced", what, err)
		}
	}
	if _, err := l.Retain(t.Context(), lease, time.Time{}, 10); !errors.Is(err, settle.ErrFenced) {
		t.Errorf("retain: %v, want ErrFenced", err)
	}
	if _, err := l.Load(t.Context(), lease); err != nil || l.run != known {
		t.Errorf("the next load knows %q, %v; want %q", l.run, err, known)
	}
	if err := l.Commit(t.Context(), lease, flushes["more"]); err != nil {
		t.Error(err)
	}
	// Whenever a session began, it names the run alike.
	time.Sleep(1100 * time.Millisecond)
	other := OpenForTest(t, at, Config{}).Log()
	if _, err := other.Load(t.Context(), lease); err != nil || other.run != known || known == "" {
		t.Errorf("another session names the run %q, %v; want %q", other.run, err, known)
	}
}

func TestALeaderWhoseTableWasEmptiedIsToldSo(t *testing.T) {
	t.Parallel()
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	l := s.Log()
	lease := leadTest(t, l)
	if _, err := l.Load(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{insertOf("a"), insertOf("b")} {
		if _, err := s.db.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	q := relay.PollQuery{After: 2, MaxRows: 10, MaxBytes: 1 << 20}
	if _, err := l.Poll(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if _, err := s.db.ExecContext(t.Context(), "TRUNCATE t_outbox_event"); err != nil {
		t.Fatal(err)
	}
	time.Sleep(lookEvery)
	if _, err := l.Poll(t.Context(), q); !errors.Is(err, settle.ErrFenced) {
		t.Errorf("says %v, want ErrFenced", err)
	}
}
