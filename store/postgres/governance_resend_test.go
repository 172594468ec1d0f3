package postgres

import (
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

func TestADeletionWaitsForAResendAndKeepsItsRow(t *testing.T) {
	at := DatabaseForTest(t)
	s := OpenForTest(t, at, Config{})
	l := s.Log()
	lease, err := l.Lead(t.Context(), "leader", 0, time.Minute)
	if err != nil || !lease.Held {
		t.Fatalf("%+v, %v", lease, err)
	}
	for _, id := range []string{"a", "b"} {
		tx, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Append(t.Context(), tx, &settle.Event{ID: id, Type: "order.created", AggregateID: id, Payload: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	f := relay.Flush{Checkpoint: relay.Checkpoint{Number: 1, Readers: []relay.Reader{{Cursor: 2}}}}
	if err := l.Commit(t.Context(), lease, f); err != nil {
		t.Fatal(err)
	}
	x := begin(t, at)
	x.do(keepRows)
	x.do("INSERT INTO t_outbox_extra (id, message_id, reason, added_at) VALUES (1, 'a#1', 'resend', now())")
	deleted := make(chan int, 1)
	go func() {
		n, err := l.Retain(t.Context(), lease, time.Now().Add(time.Hour), 100)
		if err != nil {
			t.Error(err)
		}
		deleted <- n
	}()
	waits := func() bool {
		var n int
		err := s.reading.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.query = $1`, keepRows).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n > 0
	}
	for until := time.Now().Add(patience); !waits(); {
		if time.Now().After(until) {
			t.Fatal("the deletion does not wait")
		}
	}
	x.do("COMMIT")
	if n := <-deleted; n != 1 {
		t.Errorf("%d rows were deleted, want the one that is not to be sent again", n)
	}
}
