package postgres

import (
	"testing"
	"time"

	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
)

func TestARowThatIsOpenDuringARestartIsSentWhenItCommits(t *testing.T) {
	at := DatabaseForTest(t)
	s := OpenForTest(t, at, Config{})
	open := begin(t, at)
	open.do("INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload) VALUES ('open', 'x', 'k', '{}')")
	closed := begin(t, at)
	closed.do("INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload) VALUES ('closed', 'x', 'k', '{}')")
	closed.do("COMMIT")
	r, err := s.Governance().Restart(t.Context(), govern.Act{By: "ana", Reason: "restored"}, govern.FromEnd)
	if err != nil || r.From != 3 || r.Passed != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	open.do("COMMIT")
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
