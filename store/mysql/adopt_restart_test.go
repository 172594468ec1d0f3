package mysql_test

import (
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
)

func TestAfterARestartWithIdsThatBeginAgainAPersonsResetGoesOutUnderAnotherMessageID(t *testing.T) {
	c := newClassic(t, classicTable)
	c.insert(1, 20, "SENT")
	c.adopt(migrate.AdoptConfig{})
	r := c.relay(newMemory(t), relay.Config{})
	c.insert(21, 22, "PENDING")
	r.sends(2)
	c.becomes("SENT 22")
	r.stop()
	// The table is emptied, and its ids begin again below those of the adoption.
	c.exec(`TRUNCATE t_outbox_event`)
	c.insert(101, 103, "PENDING")
	act := govern.Act{By: "ana", Reason: "the table was emptied"}
	if _, err := r.store.Governance().Restart(t.Context(), act, 1); err != nil {
		t.Fatal(err)
	}
	var high int64
	if err := r.store.DB().QueryRowContext(t.Context(), `SELECT high_id FROM settle_adoption`).Scan(&high); err != nil || high != 0 {
		t.Errorf("the log is read from above id %d, %v; want 0", high, err)
	}
	again := c.relay(newMemory(t), relay.Config{})
	again.sends(3)
	c.becomes("SENT 3")
	// What tells where the broker has a row is pruned, or was never recorded.
	if _, err := again.store.DB().ExecContext(t.Context(), `UPDATE t_outbox_checkpoint SET sent = NULL, first_id = NULL, last_id = NULL`); err != nil {
		t.Fatal(err)
	}
	c.exec(`UPDATE t_outbox_event SET status = 'PENDING' WHERE id = 2`)
	log := again.sends(4)
	var asked string
	if err := again.store.DB().QueryRowContext(t.Context(), `SELECT coalesce(group_concat(actor, ' ', target SEPARATOR ', '), '') FROM t_audit WHERE action = ?`, govern.ActionResend).Scan(&asked); err != nil || asked != "status column e-102" || log[3].Event.ID != "e-102" {
		t.Errorf("what a person has set back goes out as %s and is asked for by %q, %v; want it resent as e-102#1", log[3].Event.ID, asked, err)
	}
}

func TestRowsBeforeTheIDOfARestartAreMarkedAsSentInAnAdoptedTableAndNotSent(t *testing.T) {
	t.Parallel()
	c := newClassic(t, classicTable)
	c.adopt(migrate.AdoptConfig{})
	r := c.relay(newMemory(t), relay.Config{})
	c.insert(1, 3, "PENDING")
	r.sends(3)
	c.becomes("SENT 3")
	r.stop()
	c.exec(`TRUNCATE t_outbox_event`)
	c.insert(101, 110, "PENDING")
	// What was noted of the rows before is not true of those that have their ids.
	if _, err := r.store.DB().ExecContext(t.Context(), `INSERT INTO t_outbox_projection (id, status, attempts, cause, noted_at) VALUES (9, 'SENT', 0, '', now())`); err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.Governance().Restart(t.Context(), govern.Act{By: "ana", Reason: "the table was emptied"}, 9); err != nil {
		t.Fatal(err)
	}
	again := c.relay(newMemory(t), relay.Config{})
	again.sends(2)
	c.becomes("SENT 10")
	c.insert(111, 111, "PENDING")
	again.sends(3)
	c.becomes("SENT 11")
	if got := ids(again.broker.Log(settle.DefaultTopic)); got != "e-109 e-110 e-111" {
		t.Errorf("sent %s", got)
	}
}
