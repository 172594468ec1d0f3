package mysql

import (
	"errors"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
)

// sentForTest returns a log, led by the test, of whose two events both were sent.
func sentForTest(t *testing.T, s *Store) (*Log, relay.Lease) {
	t.Helper()
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
	return l, lease
}

func TestARowThatIsOpenDuringARestartIsSentWhenItCommits(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	const insert = `INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload) VALUES (?, 'x', 'k', '{}')`
	open, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = open.Rollback() }()
	if _, err := open.ExecContext(t.Context(), insert, "open"); err != nil {
		t.Fatal(err)
	}
	s.plant(t, insert, "closed")
	r, err := s.Governance().Restart(t.Context(), govern.Act{By: "ana", Reason: "restored"}, govern.FromEnd)
	if err != nil || r.From != 3 || r.Passed != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := open.Commit(); err != nil {
		t.Fatal(err)
	}
	l := s.Log()
	lease, err := l.Lead(t.Context(), "me", 0, time.Minute)
	if err != nil || !lease.Held {
		t.Fatal(lease, err)
	}
	if n, err := l.Sweep(t.Context(), lease, 10); err != nil || n != 1 {
		t.Fatalf("a sweep finds %d rows, %v; want the one that was open", n, err)
	}
	p, err := l.Side(t.Context(), relay.SideQuery{Side: relay.SideExtra, MaxRows: 10, MaxBytes: 1000})
	if err != nil || len(p.Rows) != 1 || p.Rows[0].Event.ID != "open" {
		t.Errorf("listed are %+v, %v", p.Rows, err)
	}
}

func TestARestartOfADividedTableIsThePositionOfEveryLane(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	l, lease := sentForTest(t, s)
	orderLanes(t, s, 2)
	lease.Ended = true
	if err := l.Resign(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	// One lane was led since, the other never.
	first := s.Log()
	led, err := first.Lead(t.Context(), "me", 1, time.Minute)
	if err != nil || !led.Held {
		t.Fatal(led, err)
	}
	if _, err := s.Governance().Restart(t.Context(), somebody, 1); !errors.Is(err, govern.ErrLeads) {
		t.Errorf("while one lane is led a restart says %v", err)
	}
	if err := first.Resign(t.Context(), led); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Governance().Restart(t.Context(), somebody, 2); err != nil || r.From != 2 || r.Sent != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	for lane := 1; lane <= 2; lane++ {
		log := s.Log()
		led, err := log.Lead(t.Context(), "me", lane, time.Minute)
		if err != nil || !led.Held {
			t.Fatal(led, err)
		}
		st, err := log.Load(t.Context(), led)
		if err != nil || len(st.Checkpoint.Readers) != 1 || st.Checkpoint.Readers[0].Cursor != 1 || st.Checkpoint.Readers[0].CursorEvent != "a" {
			t.Errorf("lane %d begins with %+v, %v; want id 1", lane, st.Checkpoint, err)
		}
	}
	// A division that has not begun starts there, too.
	orderLanes(t, s, 3)
	if _, err := s.Governance().Restart(t.Context(), somebody, 1); !errors.Is(err, govern.ErrLeads) {
		t.Errorf("while both are led a restart says %v", err)
	}
}
