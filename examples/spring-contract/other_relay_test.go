package springcontract_test

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTwoRelaysAtOnceLoseNothingAndAreNamed(t *testing.T) {
	d := newDatabase(t)
	s := start(t, d, "relay")
	orders := order(t, s, "both", 100*time.Millisecond)
	orders.more(2 * customers)
	adopt(t, d)
	r := serve(t, d, t.TempDir())
	orders.more(5 * customers)
	// For a moment only the service's relay is at work: it leaves rows SENT that
	// Settle has not read.
	paused(t, r, "pause")
	before := len(sentBySpring(t, d))
	until(t, "the service's relay sends", func() bool { return len(sentBySpring(t, d)) > before+customers })
	paused(t, r, "resume")
	orders.more(5 * customers)
	want := orders.stop(t)
	d.await(t, "all is sent", allSent)
	// Each has sent what the other may have sent too; together it is all.
	sent, published := sentBySpring(t, d), readTopic(t, r.broker)
	have := map[string]bool{}
	for _, m := range slices.Concat(sent, published) {
		have[m.id] = true
	}
	for key, ids := range want {
		for _, id := range ids {
			if !have[id] {
				t.Errorf("event %s of key %s was sent by neither", id, key)
			}
		}
	}
	t.Logf("%d events: %d sent by the service, %d by Settle", len(have), len(sent), len(published))
	d.await(t, "the other relay is noticed", `SELECT foreign_rows > 0 FROM settle.settle_adoption`)
	if said := command(t, 1, "doctor", "--db", d.adopted()); !strings.Contains(said, "rows were sent or taken by another relay") {
		t.Errorf("doctor says\n%s", said)
	}
}

// TestAWriteBackOfAStaleEntityIsAFindingAndSendsNothingAgain holds the service's
// relay in its send, as a broker that does not answer, until Settle has sent the
// event; the send times out, and the entity is saved as it was loaded.
func TestAWriteBackOfAStaleEntityIsAFindingAndSendsNothingAgain(t *testing.T) {
	d := newDatabase(t)
	s := start(t, d, "relay")
	adopt(t, d)
	r := serve(t, d, t.TempDir())
	spare := one[int](t, d, `SELECT nextval('t_outbox_event_id_seq')`)
	paused(t, r, "pause")
	tx, err := d.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `LOCK TABLE t_sent_by_spring`); err != nil {
		t.Fatal(err)
	}
	made := s.create(t, "stale", "5.00")
	d.await(t, "the service's relay holds the entity", `SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 't_sent_by_spring'::regclass AND NOT granted)`)
	paused(t, r, "resume")
	d.await(t, "Settle has sent it", `SELECT status = 'SENT' AND retry_count = 0 FROM t_outbox_event WHERE event_id = $1`, made.EventID)
	d.await(t, "the entity is written back", `SELECT status = 'PENDING' AND retry_count = 1 FROM t_outbox_event WHERE event_id = $1`, made.EventID)
	s.stop(t)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The look that finds a row which comes late finds the other one too.
	d.insert(t, spare, "late")
	d.await(t, "the late one is sent", `SELECT status = 'SENT' FROM t_outbox_event WHERE id = $1`, spare)
	if log := readTopic(t, r.broker); len(log) != 2 || log[0].id != made.EventID || log[1].id != "late" {
		t.Errorf("the topic has %v", log)
	}
	if said := command(t, 0, "doctor", "--db", d.adopted()); !strings.Contains(said, "set_back: 1 rows that were sent wait again ("+made.EventID) {
		t.Errorf("doctor says\n%s", said)
	}
}

// insert stores an event by hand.
func (d database) insert(t *testing.T, id int, eventID string) {
	t.Helper()
	_, err := d.pool.Exec(t.Context(), `
INSERT INTO t_outbox_event (id, event_id, aggregate_type, aggregate_id, event_type, payload, status)
SELECT $1, n, 'Order', n, 'order.created', jsonb_build_object('eventId', n, 'eventType', 'order.created', 'aggregateId', n, 'payload', '{}'::jsonb), 'PENDING' FROM (VALUES ($2::text)) e(n)`, id, eventID)
	if err != nil {
		t.Fatal(err)
	}
}

// paused pauses the relay of r, or resumes it.
func paused(t *testing.T, r *relaying, act string) {
	t.Helper()
	command(t, 0, act, "order", "relay", "-c", r.config, "--reason", "a test")
}
