package postgres

import (
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

func TestTheBacklogIsWhatTheBrokerHasNotAcknowledged(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	l := s.Log()
	want := func(limit int, want relay.Backlog) {
		t.Helper()
		got, err := l.Backlog(t.Context(), limit)
		if err != nil || got.Pending != want.Pending || got.Parked != want.Parked || got.More != want.More || !got.Oldest.Equal(want.Oldest) {
			t.Errorf("backlog is %+v, %v; want %+v", got, err, want)
		}
	}
	want(100, relay.Backlog{})
	t0 := time.Now().Add(-time.Hour).Truncate(time.Second)
	at := func(minute int) time.Time { return t0.Add(time.Duration(minute) * time.Minute) }
	for i := range 8 {
		e := &settle.Event{Type: "x", AggregateID: "k", AppendedAt: at(i), Payload: []byte("{}")}
		if i == 4 {
			e.Topic = "slow"
		}
		tx, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Append(t.Context(), tx, e); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	want(100, relay.Backlog{Pending: 8, Oldest: at(0)})
	want(3, relay.Backlog{Pending: 3, More: true, Oldest: at(0)})
	lease := leadTest(t, l)
	commit := func(number int64, f relay.Flush, readers ...relay.Reader) {
		t.Helper()
		f.Checkpoint = relay.Checkpoint{Number: number, Readers: readers}
		if err := l.Commit(t.Context(), lease, f); err != nil {
			t.Fatal(err)
		}
	}
	// Ids 1 to 8: 2 is in flight, 3 is parked, 4 is due, 5 of a slow topic and
	// 7, 8 above the cursors, 6 waits for its time.
	commit(1, relay.Flush{
		Park:  []relay.Park{{ID: 3, EventID: "e3", Key: "k", Destination: settle.DefaultTopic, Attempts: 1, NextAt: at(90), Class: settle.ClassHandler}},
		Delay: []relay.Delay{{ID: 4, EventID: "e4", Key: "k", Destination: settle.DefaultTopic, Due: at(30)}, {ID: 6, EventID: "e6", Key: "k", Destination: settle.DefaultTopic, Due: at(600)}},
	}, relay.Reader{Cursor: 6, Open: []int64{2}}, relay.Reader{Destination: "slow", Cursor: 3})
	want(100, relay.Backlog{Pending: 5, Parked: 1, Oldest: at(1)})
	commit(2, relay.Flush{}, relay.Reader{Cursor: 8}, relay.Reader{Destination: "slow", Cursor: 8})
	want(100, relay.Backlog{Pending: 1, Parked: 1, Oldest: at(2)})
	if _, err := s.DB().ExecContext(t.Context(), `INSERT INTO t_outbox_extra (id, reason, added_at) VALUES (1, 'late', now()); DELETE FROM t_outbox_delayed; DELETE FROM t_outbox_parked`); err != nil {
		t.Fatal(err)
	}
	want(100, relay.Backlog{Pending: 1, Oldest: at(0)})
}
