package adopted

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/doctor"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/storetest/concurrent"
)

// beside is a publisher while whose work another relay does the same.
type beside struct {
	settle.Publisher
	also func()
}

func (b beside) Publish(ctx context.Context, batch []settle.Message) []settle.Receipt {
	b.also()
	return b.Publisher.Publish(ctx, batch)
}

// VeryRows checks that a relay that sends the very rows that Settle sends is
// noticed.
func VeryRows(t *testing.T, open Open) {
	s := classic(t, open)
	s.adopt(migrate.AdoptConfig{})
	r := s.relay(newMemory(t), relay.Config{})
	s.insert(1, 3, "PENDING")
	r.sends(3)
	s.becomes("SENT 3")
	// What a person has sent once more is SENT already: that is nobody else's work.
	if _, err := r.store.Governance.Resend(t.Context(), govern.Act{By: "ana", Reason: "a test"}, "e-2"); err != nil {
		t.Fatal(err)
	}
	r.sends(4)
	r.stop()
	r.noticesNobody()

	other := beside{r.broker, func() { s.exec(`UPDATE t_outbox_event SET status = 'SENT' WHERE event_id = 'e-5'`) }}
	s.insert(4, 6, "PENDING")
	stop := start(t, r.store.Log, other, relay.Config{})
	r.notices(1)
	stop()
	if f := s.Findings()["old_relay"]; f.Verdict == doctor.OK || !strings.Contains(f.Found, "1 rows were sent or taken by another relay") {
		t.Errorf("doctor says %+v", f)
	}
}

// OtherLanes checks that what other lanes have sent is nobody else's work.
func OtherLanes(t *testing.T, open Open) {
	s := classic(t, open)
	s.adopt(migrate.AdoptConfig{})
	crew := concurrent.RunCrews(t, s.More)
	store := s.Open(Options{})
	n := 0
	for _, lanes := range []int{4, 2, 3, 1} {
		concurrent.Divide(t, store.Governance, lanes)
		for {
			s.insert(n+1, n+50, "PENDING")
			n += 50
			if all, err := store.Governance.LaneStandings(t.Context()); err != nil || len(all) == lanes && all[0].Begun {
				break
			}
		}
		crew.Leading(store.Governance, lanes)
	}
	s.becomes(fmt.Sprintf("SENT %d", n))
	// While the lane awaits an id that others have sent, whatever is set back there is
	// read as a late row, under its own id, of which the broker has one.
	eventually(t, "no id that others have sent is awaited", func() (string, bool) {
		var awaited int
		err := store.DB.QueryRowContext(t.Context(), `SELECT count(*) FROM v_outbox_open WHERE first_id <= 7 AND last_id >= 7`).Scan(&awaited)
		return fmt.Sprint(awaited, err), err == nil && awaited == 0
	})
	// A wish is granted only while nobody else seems to be at work.
	s.exec(`UPDATE t_outbox_event SET status = 'PENDING' WHERE event_id = 'e-7'`)
	eventually(t, "a row that was set back is sent again", func() (string, bool) {
		sent := len(crew.Broker.Log(settle.DefaultTopic))
		return fmt.Sprint(sent), sent > n
	})
	(&relaying{TB: t, store: store}).noticesNobody()
}

// BeforeRestart checks that what was sent before a restart is nobody else's work.
func BeforeRestart(t *testing.T, open Open) {
	s := classic(t, open)
	s.insert(1, 5, "SENT")
	s.insert(6, 10, "PENDING")
	s.adopt(migrate.AdoptConfig{})
	r := s.relay(newMemory(t), relay.Config{})
	r.sends(5)
	s.becomes("SENT 10")
	r.stop()
	if _, err := r.store.Governance.Restart(t.Context(), govern.Act{By: "ana", Reason: "a test"}, 1); err != nil {
		t.Fatal(err)
	}
	again := s.relay(r.broker, relay.Config{})
	s.insert(11, 12, "PENDING")
	r.sends(7)
	s.becomes("SENT 12")
	s.exec(`UPDATE t_outbox_event SET status = 'PENDING' WHERE event_id = 'e-12'`)
	r.sends(8)
	again.noticesNobody()
}

// OwnAttempt checks that a row that a program writes back after its own attempt is
// a finding, and no request.
func OwnAttempt(t *testing.T, open Open) {
	s := classic(t, open)
	s.adopt(migrate.AdoptConfig{})
	r := s.relay(newMemory(t), relay.Config{})
	s.insert(1, 3, "PENDING")
	r.sends(3)
	s.becomes("SENT 3")
	s.run(`UPDATE t_outbox_event SET status = 'PENDING', retry_count = 1, updated_at = CURRENT_TIMESTAMP, next_retry_time = ` + s.Later(5*time.Second) + ` WHERE event_id = 'e-1'`)
	// A person's wish is below it in the table, so one look finds both.
	s.exec(`UPDATE t_outbox_event SET status = 'PENDING' WHERE event_id = 'e-3'`)
	r.sends(4)
	s.becomes("PENDING 1, SENT 2")
	if got := sent(r.broker); got != "e-1 e-2 e-3 e-3" {
		t.Errorf("sent %s", got)
	}
	if f := s.Findings()["set_back"]; f.Verdict == doctor.OK || !strings.Contains(f.Found, "e-1") || !strings.Contains(f.Fix, "settle outbox resend") {
		t.Errorf("doctor says %+v", f)
	}
}

// StrangeWord checks that a doctor names a word in the status that has no meaning.
func StrangeWord(t *testing.T, open Open) {
	s := classic(t, open)
	s.insert(1, 3, "SENT")
	s.adopt(migrate.AdoptConfig{})
	s.insert(4, 4, "HELD")
	if f := s.Findings()["adoption"]; f.Verdict != doctor.Bad || !strings.Contains(f.Found, `status "HELD" has no meaning`) || !strings.Contains(f.Fix, "--status KIND=HELD") {
		t.Errorf("found %+v", f)
	}
	s.adopt(migrate.AdoptConfig{Status: map[string][]string{migrate.StatusDead: {"HELD"}}})
	if f := s.Findings()["adoption"]; f.Verdict != doctor.OK {
		t.Errorf("after it was given one: %+v", f)
	}
}

// OpenRuns checks that a doctor reads a position with runs of open ids, and names
// the table once.
func OpenRuns(t *testing.T, open Open) {
	s := classic(t, open)
	s.adopt(migrate.AdoptConfig{})
	s.insert(1, 1, "PENDING")
	r := s.relay(newMemory(t), relay.Config{HoleAge: time.Hour})
	r.sends(1)
	for _, statement := range s.Holes {
		s.run(statement)
	}
	s.insert(2, 2, "PENDING")
	r.sends(2)
	s.becomes("SENT 2")
	found := s.Findings()
	if f := found["generation"]; f.Verdict != doctor.OK {
		t.Errorf("generation: %+v", f)
	}
	for name, f := range found {
		if strings.Contains(f.Found+f.Fix, s.Schema+"."+s.Schema) {
			t.Errorf("%s names the table twice over: %+v", name, f)
		}
	}
}
