package postgres_test

import (
	"testing"
	"time"

	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/postgres"
)

// What is done while nobody uses the outbox is one message: a pooler keeps it
// together.
func TestAPartitionGoesThroughAPooler(t *testing.T) {
	at := pooler(t, ownDatabase(t))
	postgres.PartitionForTest(t, at, 10)
	s := postgres.OpenForTest(t, at, postgres.Config{})
	if _, err := s.DB().ExecContext(t.Context(), `INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload, appended_at)
SELECT 'e' || i, 'x', 'k', '{}', now() - interval '2 hours' FROM generate_series(1, 40) i`); err != nil {
		t.Fatal(err)
	}
	l := s.Log()
	lease, err := l.Lead(t.Context(), "me", 0, time.Hour)
	if err != nil || !lease.Held {
		t.Fatalf("%+v, %v", lease, err)
	}
	if err := l.Commit(t.Context(), lease, relay.Flush{Checkpoint: relay.Checkpoint{Number: 1, Readers: []relay.Reader{{Cursor: 40}}}}); err != nil {
		t.Fatal(err)
	}
	left := 0
	for range 20 { // something of the server may be in the way for a moment
		if _, err := s.Log().Retain(t.Context(), lease, time.Now().Add(-90*time.Minute), 1000); err != nil {
			t.Fatal(err)
		}
		if err := s.Reader().QueryRowContext(t.Context(), "SELECT count(*) FROM t_outbox_event").Scan(&left); err != nil {
			t.Fatal(err)
		}
		if left == 10 {
			return
		}
	}
	t.Errorf("%d rows are left, want 10 of five partitions", left)
}
