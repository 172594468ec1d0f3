package adopted

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
)

// KilledHalfWay checks that an adoption that is killed half-way goes on.
func KilledHalfWay(t *testing.T, open Open) {
	s := classic(t, open)
	s.insert(1, 10, "SENT")
	s.insert(11, 20, "PENDING")
	killed := 0
	for patience := time.Millisecond; ; patience = patience*4/3 + time.Millisecond {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err := s.Adopt(ctx, migrate.AdoptConfig{Table: s.table()})
		cancel()
		if err == nil {
			break
		}
		// It may have been finished, and killed before it could say so.
		if killed++; s.TryOpen(true) == nil {
			break
		}
	}
	if killed < 3 {
		t.Errorf("killed %d times only", killed)
	}
	// Just before its last statement.
	for _, query := range []string{`UPDATE %s.settle_adoption SET adopted_at = NULL, listed_id = 15`, `DELETE FROM %s.t_outbox_extra WHERE id > 15`, `DELETE FROM %s.t_outbox_checkpoint`} {
		s.run(fmt.Sprintf(query, s.Own))
	}
	if err := s.TryOpen(false); err == nil || !strings.Contains(err.Error(), "settle migrate --adopt --yes goes on") {
		t.Errorf("what is half adopted says %v", err)
	}
	s.insert(21, 22, "PENDING")
	s.adopt(migrate.AdoptConfig{})
	r := s.relay(newMemory(t), relay.Config{})
	r.sends(12)
	s.becomes("SENT 22")
	r.stop()
	if n := len(r.broker.Log(settle.DefaultTopic)); n != 12 {
		t.Errorf("%d were sent, want 12", n)
	}
}

// IDsBeginAgain checks that after a restart with ids that begin again a person's
// reset goes out under another message id.
func IDsBeginAgain(t *testing.T, open Open) {
	s := classic(t, open)
	s.insert(1, 20, "SENT")
	s.adopt(migrate.AdoptConfig{})
	r := s.relay(newMemory(t), relay.Config{})
	s.insert(21, 22, "PENDING")
	r.sends(2)
	s.becomes("SENT 22")
	r.stop()
	// The table is emptied, and its ids begin again below those of the adoption.
	s.run(s.Empty)
	s.insert(101, 103, "PENDING")
	if _, err := r.store.Governance.Restart(t.Context(), govern.Act{By: "ana", Reason: "the table was emptied"}, 1); err != nil {
		t.Fatal(err)
	}
	if high := fmt.Sprint(r.column(`SELECT high_id FROM settle_adoption`)); high != "[0]" {
		t.Errorf("the log is read from above id %s; want 0", high)
	}
	again := s.relay(newMemory(t), relay.Config{})
	again.sends(3)
	s.becomes("SENT 3")
	// What tells where the broker has a row is pruned, or was never recorded.
	if _, err := again.store.DB.ExecContext(t.Context(), `UPDATE t_outbox_checkpoint SET sent = NULL, first_id = NULL, last_id = NULL`); err != nil {
		t.Fatal(err)
	}
	s.exec(`UPDATE t_outbox_event SET status = 'PENDING' WHERE id = 2`)
	log := again.sends(4)
	actors, targets := again.column(`SELECT actor FROM t_audit WHERE action = '`+govern.ActionResend+`'`), again.column(`SELECT target FROM t_audit WHERE action = '`+govern.ActionResend+`'`)
	if fmt.Sprint(actors, targets) != "[status column] [e-102]" || log[3].Event.ID != "e-102" {
		t.Errorf("what a person has set back goes out as %s and is asked for by %v, %v; want it resent as e-102#1", log[3].Event.ID, actors, targets)
	}
}

// BeforeTheID checks that rows before the id of a restart are marked as sent, and
// not sent.
func BeforeTheID(t *testing.T, open Open) {
	s := classic(t, open)
	s.adopt(migrate.AdoptConfig{})
	r := s.relay(newMemory(t), relay.Config{})
	s.insert(1, 3, "PENDING")
	r.sends(3)
	s.becomes("SENT 3")
	r.stop()
	s.run(s.Empty)
	s.insert(101, 110, "PENDING")
	// What was noted of the rows before is not true of those that have their ids.
	if _, err := r.store.DB.ExecContext(t.Context(), `INSERT INTO t_outbox_projection (id, status, attempts, cause, noted_at) VALUES (9, 'SENT', 0, '', now())`); err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.Governance.Restart(t.Context(), govern.Act{By: "ana", Reason: "the table was emptied"}, 9); err != nil {
		t.Fatal(err)
	}
	again := s.relay(newMemory(t), relay.Config{})
	again.sends(2)
	s.becomes("SENT 10")
	s.insert(111, 111, "PENDING")
	again.sends(3)
	s.becomes("SENT 11")
	if got := sent(again.broker); got != "e-109 e-110 e-111" {
		t.Errorf("sent %s", got)
	}
}
