package mysql

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle/doctor"
)

func TestADoctorTellsIDsThatAreTakenInBlocks(t *testing.T) {
	insert := func(ids ...int64) string {
		var rows []string
		for _, id := range ids {
			rows = append(rows, fmt.Sprintf("(%d, 'f%[1]d', 'x', 'k', '{}')", id))
		}
		return "INSERT INTO t_outbox_event (id, event_id, event_type, aggregate_id, payload) VALUES " + strings.Join(rows, ", ")
	}
	var blocks, between []int64
	for b := range int64(9) {
		for i := range int64(7) {
			blocks = append(blocks, 50*(b+1)+i+1)
		}
	}
	for i := range int64(11) {
		between = append(between, 20+i)
	}
	for _, c := range []struct {
		name  string
		plant []string
		found string
	}{
		{"blocks of another program", []string{insert(blocks...)}, "blocks of 50"},
		{"a sequence that gives blocks", []string{"CREATE SEQUENCE t_outbox_event_seq INCREMENT BY 50", insert(between...)}, "blocks of 50"},
		{"ids of a server that steps", []string{insert(21, 23, 25, 27, 29, 31, 33, 35, 37, 39)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			at, s := relayedForTest(t)
			if strings.HasPrefix(c.plant[0], "CREATE SEQUENCE") && !s.server.mariadb {
				t.Skip("MySQL has no sequences")
			}
			for _, q := range c.plant {
				s.plant(t, q)
			}
			f := diagnose(t, at, DoctorConfig{})["pooled_ids"]
			if c.found == "" && f.Verdict != doctor.OK || c.found != "" && (f.Verdict != doctor.Bad || !strings.Contains(f.Found, c.found)) {
				t.Errorf("%+v, want %q", f, c.found)
			}
		})
	}
}

// What another relay says is seen while it says it.
func TestADoctorSeesARelayOfAnotherKindAtWork(t *testing.T) {
	at, s := relayedForTest(t)
	if f := diagnose(t, at, DoctorConfig{})["old_relay"]; f.Verdict != doctor.OK {
		t.Errorf("before: %+v", f)
	}
	for name, statement := range map[string]string{
		"one that claims": "SELECT SLEEP(20), id FROM t_outbox_event WHERE id = 2 FOR UPDATE SKIP LOCKED",
		"one that marks":  "UPDATE t_outbox_event SET version = 2 + SLEEP(20) WHERE id = 1",
		"one that joins":  "update t_outbox_event e, (select sleep(20) s) w set e.version = 2 where e.id = w.s",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := s.db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var id int64
			if err := conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = conn.ExecContext(t.Context(), statement) // until it is killed
			}()
			defer func() {
				s.plant(t, fmt.Sprintf("KILL %d", id))
				<-ended
				_ = conn.Close()
			}()
			for until := time.Now().Add(15 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				f := diagnose(t, at, DoctorConfig{})["old_relay"]
				if f.Verdict == doctor.Bad && strings.Contains(f.Found, fmt.Sprintf("connection %d of ", id)) {
					return
				}
				if time.Now().After(until) {
					t.Fatalf("%+v", f)
				}
			}
		})
	}
}
