package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
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

func TestALostLeaseFileCostsATakeoverOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s, err := Open(t.Context(), path, Config{})
	if err != nil {
		t.Fatal(err)
	}
	before := leadTest(t, s.Log())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path + "-lease"); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, path, Config{})
	lease, err := s.Log().Lead(t.Context(), "another", 0, time.Hour)
	if err != nil || !lease.Held || lease.Epoch != before.Epoch+1 {
		t.Errorf("%+v, %v; the epoch was %d", lease, err, before.Epoch)
	}
}

func TestTheEpochRisesAlsoBehindARestoredFile(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "a.db"), Config{})
	for range 3 {
		l := s.Log()
		if err := l.Resign(t.Context(), leadTest(t, l)); err != nil {
			t.Fatal(err)
		}
	}
	last := leadTest(t, s.Log())
	// The file comes back from a copy that is older than the lease file.
	if _, err := s.DB().ExecContext(t.Context(), "UPDATE t_outbox_lease SET epoch = 1"); err != nil {
		t.Fatal(err)
	}
	if again := leadTest(t, s.Log()); again.Epoch <= last.Epoch {
		t.Errorf("epoch %d is given again, it was %d", again.Epoch, last.Epoch)
	}
}

func TestOldCheckpointsGoAndTheNewestStays(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "a.db"), Config{})
	for i := range 10 {
		appendTest(t, s, &settle.Event{ID: fmt.Sprint("e", i), Type: "a", AggregateID: "k", Payload: []byte(`{}`)})
	}
	l := s.Log()
	lease := leadTest(t, l)
	for number := int64(1); number <= 200; number++ {
		f := relay.Flush{Checkpoint: relay.Checkpoint{Number: number, Readers: []relay.Reader{{Cursor: min(number, 10)}}}}
		if number <= 10 {
			f.Sent = []relay.Sent{{ID: number, EventID: fmt.Sprint("e", number-1), Destination: "t", SentAt: time.Now()}}
		}
		if err := l.Commit(t.Context(), lease, f); err != nil {
			t.Fatal(err)
		}
	}
	count := func() (n int) {
		if err := s.Reader().QueryRowContext(t.Context(), "SELECT count(*) FROM t_outbox_checkpoint").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for range 20 {
		if _, err := l.Retain(t.Context(), lease, time.Time{}, 20); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(); n != 11 {
		t.Errorf("%d checkpoints, want the 10 that know where an event is and the newest", n)
	}
	for range 20 {
		if _, err := l.Retain(t.Context(), lease, time.Now().Add(time.Hour), 20); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(); n != 1 {
		t.Errorf("%d checkpoints after all events went, want 1", n)
	}
	if st, err := l.Load(t.Context(), lease); err != nil || st.Checkpoint.Number != 200 || st.MaxID != 10 {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestALeaderWithoutNameOrTimeIsRefused(t *testing.T) {
	l := openTest(t, filepath.Join(t.TempDir(), "a.db"), Config{}).Log()
	for _, c := range []struct {
		owner string
		ttl   time.Duration
	}{{"", time.Second}, {"me", 0}} {
		if lease, err := l.Lead(t.Context(), c.owner, 0, c.ttl); err == nil || lease.Held {
			t.Errorf("%q for %s leads: %+v", c.owner, c.ttl, lease)
		}
	}
}
