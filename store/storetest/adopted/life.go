package adopted

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
)

// SetBack checks that a row that a person sets back is sent again, under another
// message id.
func SetBack(t *testing.T, open Open) {
	s := classic(t, open)
	s.insert(1, 2, "SENT")
	s.insert(3, 4, "PENDING")
	s.adopt(migrate.AdoptConfig{})
	r := s.relay(newMemory(t), relay.Config{})
	s.insert(5, 6, "PENDING")
	r.sends(4)
	s.becomes("SENT 6")
	// One that the old relay had sent, one of the backlog, one of the log.
	for i, id := range []int{1, 3, 5} {
		s.exec(`UPDATE t_outbox_event SET status = 'PENDING' WHERE event_id = ?`, fmt.Sprint("e-", id))
		log := r.sends(5 + i)
		s.becomes("SENT 6")
		if got := log[4+i].Event.ID; got != fmt.Sprint("e-", id) {
			t.Errorf("row %d was set back, %s was sent", id, got)
		}
	}
	if acts := r.column(`SELECT actor FROM t_audit WHERE actor = 'status column' ORDER BY seq`); len(acts) != 2 {
		t.Errorf("the audit says %v", acts)
	}
}

// WriteBack checks that what a program writes back while another relay runs is
// not sent again.
func WriteBack(t *testing.T, open Open) {
	s := classic(t, open)
	s.adopt(migrate.AdoptConfig{})
	r := s.relay(newMemory(t), relay.Config{})
	s.insert(1, 3, "PENDING")
	r.sends(3)
	s.becomes("SENT 3")
	// Another relay has inserted knowledge of its own: rows that were never ours.
	s.insert(4, 5, "SENT")
	s.insert(6, 6, "PENDING")
	r.sends(4)
	r.notices(2)
	s.exec(`UPDATE t_outbox_event SET status = 'PENDING' WHERE event_id = 'e-2'`)
	s.insert(7, 7, "PENDING")
	r.sends(5)
	time.Sleep(500 * time.Millisecond) // several sweeps, each of which could send it
	if got := sent(r.broker); got != "e-1 e-2 e-3 e-6 e-7" {
		t.Errorf("sent %s", got)
	}
}

// LateIDs checks that ids that come late, or were deleted, lose nothing.
func LateIDs(t *testing.T, open Open) {
	s := classic(t, open)
	s.insert(1, 5, "PENDING")
	// Transactions that are open while the table is adopted: one near the
	// highest id, one of a block of ids far below.
	tx, err := s.DB.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), insertAt(6)); err != nil {
		t.Fatal(err)
	}
	s.run(insertAt(5000))
	if skip := s.Behind(5000); skip != "" {
		s.run(skip)
	}
	s.adopt(migrate.AdoptConfig{})
	r := s.relay(newMemory(t), relay.Config{})
	r.sends(6)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	s.run(insertAt(4000)) // just below the highest
	s.run(insertAt(100))  // far below
	s.run(insertAt(6000)) // a jump
	s.run(insertAt(5500)) // behind the jump
	s.run(`INSERT INTO t_outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, status) VALUES ('gone', 'order', 'o-1', 'x', '{"eventId": "gone"}', 'PENDING')`)
	r.sends(11)
	s.exec(`DELETE FROM t_outbox_event WHERE id <= 5`)
	s.insert(9001, 9002, "PENDING")
	r.sends(13)
	s.becomes("SENT 9")
	r.stop()
	seen := map[string]int{}
	for _, m := range r.broker.Log(settle.DefaultTopic) {
		seen[m.Headers[settle.HeaderEventID]]++
	}
	for _, id := range []string{"e-1", "e-5", "i-6", "i-5000", "i-4000", "i-100", "i-6000", "i-5500", "gone", "e-9001", "e-9002"} {
		if seen[id] != 1 {
			t.Errorf("%s was sent %d times", id, seen[id])
		}
	}
}

// RetriedKeys checks that keys that the old relay retries begin blocked, and in
// order.
func RetriedKeys(t *testing.T, open Open) {
	s := classic(t, open)
	s.insert(1, 30, "PENDING") // keys o-0 … o-9, three rows each
	s.run(`UPDATE t_outbox_event SET status = 'RETRY', retry_count = 2, last_error = 'no route', next_retry_time = ` + s.Later(time.Second) + ` WHERE id IN (13, 15)`)
	if p := s.adopt(migrate.AdoptConfig{}); p.Send != 30 || p.Retry != 2 {
		t.Errorf("the plan is %+v", p)
	}
	r := s.relay(newMemory(t), relay.Config{})
	s.becomes("SENT 30")
	r.stop()
	byKey := map[string]string{}
	for _, m := range r.broker.Log(settle.DefaultTopic) {
		byKey[m.Key] += m.Event.ID + " "
	}
	for key, want := range map[string]string{"o-3": "e-3 e-13 e-23 ", "o-5": "e-5 e-15 e-25 ", "o-1": "e-1 e-11 e-21 "} {
		if byKey[key] != want {
			t.Errorf("%s got %s", key, byKey[key])
		}
	}
}

// RefusedAndBroken checks that what is refused is shown in the table, and that
// what is broken is parked alone.
func RefusedAndBroken(t *testing.T, open Open) {
	s := classic(t, open, "payload JSONB", "payload TEXT", "payload JSON", "payload TEXT", "last_error TEXT", "last_error VARCHAR(30)")
	s.run(`INSERT INTO t_outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, status) VALUES
 ('r-1', 'order', 'R', 'x', '{"eventId": "r-1", "eventType": "x", "aggregateId": "R"}', 'PENDING'), ('b-1', 'order', 'B', 'x', '{"eventId": "b-1", ', 'PENDING'),
 ('b-2', 'order', 'C', 'x', '{"eventId": "b-3"}', 'PENDING'), ('g-1', 'order', 'G', 'x', '{"eventId": "g-1", "eventType": "x", "aggregateId": "G"}', 'PENDING')`)
	s.adopt(migrate.AdoptConfig{Payload: migrate.PayloadEnvelope, Status: map[string][]string{migrate.StatusRetry: {"RETRY"}, migrate.StatusDead: {"DEAD"}}})
	stop := start(t, s.Open(Options{}).Log, &refusing{newMemory(t), "R"}, relay.Config{SweepEvery: 50 * time.Millisecond, Retry: settle.Backoff{Base: time.Hour, Max: time.Hour}})
	s.becomes("DEAD 2, RETRY 1, SENT 1")
	var tries int
	var cause string
	var ahead bool
	err := s.DB.QueryRowContext(t.Context(), `SELECT retry_count, last_error, next_retry_time > `+s.Later(10*time.Minute)+` FROM t_outbox_event WHERE event_id = 'r-1'`).Scan(&tries, &cause, &ahead)
	if err != nil || tries != 1 || cause != "record: refused: "+strings.Repeat("é", 13) || !ahead {
		t.Errorf("%d tries, %q, ahead %v, %v", tries, cause, ahead, err)
	}
	stop()
}

// refusing refuses the events of one key.
type refusing struct {
	*memory.Broker
	key string
}

func (b *refusing) Publish(ctx context.Context, batch []settle.Message) []settle.Receipt {
	receipts := make([]settle.Receipt, len(batch))
	for i, m := range batch {
		if m.Event.AggregateID == b.key {
			receipts[i].Err = &settle.PublishError{Scope: settle.ScopeRecord, Err: errors.New("refused: " + strings.Repeat("é", 100))}
			continue
		}
		receipts[i] = b.Broker.Publish(ctx, batch[i:i+1])[0]
	}
	return receipts
}

// HeldRow checks that a row that somebody holds is marked later, and holds nobody
// up.
func HeldRow(t *testing.T, open Open) {
	s := withoutIndex(t, open)
	s.insert(1, 20, "PENDING")
	s.adopt(migrate.AdoptConfig{})
	tx, err := s.DB.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), `UPDATE t_outbox_event SET last_error = 'mine' WHERE id = 7`); err != nil {
		t.Fatal(err)
	}
	r := s.relay(newMemory(t), relay.Config{})
	r.sends(20)
	eventually(t, "all others are marked", func() (string, bool) {
		n := fmt.Sprint(r.column(`SELECT count(*) FROM ` + s.table() + ` WHERE status = 'SENT'`))
		return n, n == "[19]"
	})
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	s.becomes("SENT 20")
	if n := len(r.broker.Log(settle.DefaultTopic)); n != 20 {
		t.Errorf("%d were sent", n)
	}
}

// OnlySentIsDeleted checks that of an adopted table only what is marked as sent is
// deleted, and only when asked.
func OnlySentIsDeleted(t *testing.T, open Open) {
	s := classic(t, open)
	s.insert(1, 2, "DEAD")
	s.insert(3, 4, "SENT")
	s.insert(5, 6, "PENDING")
	s.adopt(migrate.AdoptConfig{})
	r := s.relay(newMemory(t), relay.Config{})
	r.sends(2)
	s.becomes("DEAD 2, SENT 4")
	r.stop()
	l := r.store.Log
	lease, err := l.Lead(t.Context(), "me", 0, time.Minute)
	if err != nil || !lease.Held {
		t.Fatal(lease, err)
	}
	if _, err := l.Load(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		before time.Time
		left   string
	}{{time.Time{}, "DEAD 2, SENT 4"}, {time.Now().Add(time.Hour), "DEAD 2"}} {
		if _, err := l.Retain(t.Context(), lease, step.before, 100); err != nil {
			t.Fatal(err)
		}
		if got := s.statuses(); got != step.left {
			t.Errorf("%s is left, want %s", got, step.left)
		}
	}
}

// AppendSaysWhere checks that who appends is told where the outbox is.
func AppendSaysWhere(t *testing.T, open Open) {
	s := classic(t, open)
	s.adopt(migrate.AdoptConfig{})
	store := s.Open(Options{})
	tx, err := store.DB.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	err = store.Outbox.Append(t.Context(), tx, &settle.Event{Type: "x", AggregateID: "k", Payload: []byte("{}")})
	if err == nil || !strings.Contains(err.Error(), s.table()) {
		t.Errorf("it says %v", err)
	}
}

// WordsOfSent checks that a word for rows that were sent is not taken for one of
// rows that wait.
func WordsOfSent(t *testing.T, open Open) {
	s := classic(t, open)
	s.insert(1, 5, "SENT")
	pending := migrate.AdoptConfig{Status: map[string][]string{migrate.StatusPending: {"SENT"}}}
	if _, err := s.tryAdopt(pending); err == nil || !strings.Contains(err.Error(), "status pending=SENT would send 5 rows once more") {
		t.Errorf("it says %v", err)
	}
	s.exec(`UPDATE t_outbox_event SET status = 'GONE_OUT'`)
	s.adopt(migrate.AdoptConfig{Status: map[string][]string{migrate.StatusSent: {"GONE_OUT"}}})
	pending.Status[migrate.StatusPending] = []string{"GONE_OUT"}
	if _, err := s.tryAdopt(pending); err == nil || !strings.Contains(err.Error(), "would send 5 rows once more") {
		t.Errorf("of a word that was decided it says %v", err)
	}
}
