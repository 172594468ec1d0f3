package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/postgres"
)

func ids(log []settle.Record) string {
	var all []string
	for _, m := range log {
		all = append(all, m.Headers[settle.HeaderEventID])
	}
	return strings.Join(all, " ")
}

func TestARowThatAPersonSetsBackIsSentAgainUnderAnotherMessageID(t *testing.T) {
	c := newClassic(t, classicTable)
	c.insert(1, 2, "SENT")
	c.insert(3, 4, "PENDING")
	c.adopt(migrate.AdoptConfig{})
	r := c.relay(newMemory(t), relay.Config{})
	c.insert(5, 6, "PENDING")
	r.sends(4)
	c.becomes("SENT 6")
	// One that the old relay had sent, one of the backlog, one of the log.
	for i, id := range []int{1, 3, 5} {
		c.exec(`UPDATE t_outbox_event SET status = 'PENDING' WHERE id = $1`, id)
		log := r.sends(5 + i)
		c.becomes("SENT 6")
		if got := log[4+i].Event.ID; got != fmt.Sprint("e-", id) {
			t.Errorf("row %d was set back, %s was sent", id, got)
		}
	}
	var acts string
	if err := r.store.Pool().QueryRow(t.Context(), `SELECT string_agg(actor || ' ' || action || ' ' || target, ', ' ORDER BY seq) FROM t_audit`).Scan(&acts); err != nil || strings.Count(acts, "status column") != 2 {
		t.Errorf("the audit says %s, %v", acts, err)
	}
}

func TestAWriteBackWhileAnotherRelayRunsIsNotSentAgain(t *testing.T) {
	c := newClassic(t, classicTable)
	c.adopt(migrate.AdoptConfig{})
	r := c.relay(newMemory(t), relay.Config{})
	c.insert(1, 3, "PENDING")
	r.sends(3)
	c.becomes("SENT 3")
	// Another relay has inserted knowledge of its own: rows that were never ours.
	c.insert(4, 5, "SENT")
	c.insert(6, 6, "PENDING")
	r.sends(4)
	eventually(t, "the other relay is noticed", func() (string, bool) {
		var n int64
		err := r.store.Pool().QueryRow(context.Background(), `SELECT foreign_rows FROM settle_adoption`).Scan(&n)
		return fmt.Sprint(n, err), n == 2
	})
	c.exec(`UPDATE t_outbox_event SET status = 'PENDING' WHERE id = 2`)
	c.insert(7, 7, "PENDING")
	r.sends(5)
	time.Sleep(500 * time.Millisecond) // several sweeps, each of which could send it
	if got := ids(r.broker.Log(settle.DefaultTopic)); got != "e-1 e-2 e-3 e-6 e-7" {
		t.Errorf("sent %s", got)
	}
}

func TestIdsThatComeLateOrWereDeletedLoseNothing(t *testing.T) {
	c := newClassic(t, classicTable)
	c.insert(1, 5, "PENDING")
	// Transactions that are open while the table is adopted: one near the
	// highest id, one of a block of ids far below.
	late, err := pgx.Connect(t.Context(), c.conn.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close(context.Background())
	tx, err := late.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), insertAt, 6); err != nil {
		t.Fatal(err)
	}
	c.exec(insertAt, 5000)
	c.exec(`SELECT setval('t_outbox_event_id_seq', 5000)`)
	c.adopt(migrate.AdoptConfig{})
	r := c.relay(newMemory(t), relay.Config{})
	r.sends(6)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.exec(insertAt, 4000) // just below the highest
	c.exec(insertAt, 100)  // far below
	c.exec(insertAt, 6000) // a jump
	c.exec(insertAt, 5500) // behind the jump
	c.exec(`INSERT INTO t_outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, status) VALUES ('gone', 'order', 'o-1', 'x', '{"eventId": "gone"}', 'PENDING')`)
	r.sends(11)
	c.exec(`DELETE FROM t_outbox_event WHERE id <= 5`)
	c.insert(9001, 9002, "PENDING")
	r.sends(13)
	c.becomes("SENT 9")
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

const insertAt = `INSERT INTO t_outbox_event (id, event_id, aggregate_type, aggregate_id, event_type, payload, status)
VALUES ($1::bigint, 'i-' || $1::bigint, 'order', 'o-' || $1::bigint, 'order.created', jsonb_build_object('eventId', 'i-' || $1::bigint, 'eventType', 'order.created', 'aggregateId', 'o-' || $1::bigint), 'PENDING')`

func TestKeysThatTheOldRelayRetriesBeginBlockedAndInOrder(t *testing.T) {
	c := newClassic(t, classicTable)
	c.insert(1, 30, "PENDING") // keys o-0 … o-9, three rows each
	c.exec(`UPDATE t_outbox_event SET status = 'RETRY', retry_count = 2, last_error = 'no route', next_retry_time = CURRENT_TIMESTAMP + interval '1 s' WHERE id IN (13, 15)`)
	p := c.adopt(migrate.AdoptConfig{})
	if p.Send != 30 || p.Retry != 2 {
		t.Errorf("the plan is %+v", p)
	}
	r := c.relay(newMemory(t), relay.Config{})
	c.becomes("SENT 30")
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

func TestWhatIsRefusedIsShownInTheTableAndWhatIsBrokenIsParkedAlone(t *testing.T) {
	c := newClassic(t, strings.NewReplacer("payload JSONB", "payload TEXT", "last_error TEXT", "last_error VARCHAR(30)").Replace(classicTable))
	c.exec(`INSERT INTO t_outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, status) VALUES
 ('r-1', 'order', 'R', 'x', '{"eventId": "r-1", "eventType": "x", "aggregateId": "R"}', 'PENDING'), ('b-1', 'order', 'B', 'x', '{"eventId": "b-1", ', 'PENDING'),
 ('b-2', 'order', 'C', 'x', '{"eventId": "b-3"}', 'PENDING'), ('g-1', 'order', 'G', 'x', '{"eventId": "g-1", "eventType": "x", "aggregateId": "G"}', 'PENDING')`)
	c.adopt(migrate.AdoptConfig{Payload: migrate.PayloadEnvelope, Status: map[string][]string{migrate.StatusRetry: {"RETRY"}, migrate.StatusDead: {"DEAD"}}})
	b := &refusing{Broker: newMemory(t), key: "R"}
	store := postgres.OpenForTest(t, c.at, postgres.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- relay.New(store.Log(), b, relay.Config{SweepEvery: 50 * time.Millisecond, Retry: settle.Backoff{Base: time.Hour, Max: time.Hour}}).Run(ctx)
	}()
	c.becomes("DEAD 2, RETRY 1, SENT 1")
	var tries int
	var cause string
	var ahead bool
	if err := c.conn.QueryRow(t.Context(), `SELECT retry_count, last_error, next_retry_time > CURRENT_TIMESTAMP + interval '10 min' FROM t_outbox_event WHERE event_id = 'r-1'`).Scan(&tries, &cause, &ahead); err != nil || tries != 1 || cause != "record: refused: "+strings.Repeat("é", 13) || !ahead {
		t.Errorf("%d tries, %q, ahead %v, %v", tries, cause, ahead, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
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

func TestARowThatSomebodyHoldsIsMarkedLaterAndHoldsNobodyUp(t *testing.T) {
	without, _, _ := strings.Cut(classicTable, "CREATE INDEX")
	c := newClassic(t, without)
	c.insert(1, 20, "PENDING")
	c.adopt(migrate.AdoptConfig{})
	tx, err := c.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT 1 FROM t_outbox_event WHERE id = 7 FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	r := c.relay(newMemory(t), relay.Config{})
	r.sends(20)
	eventually(t, "all others are marked", func() (string, bool) {
		var n int
		err := r.store.Pool().QueryRow(context.Background(), `SELECT count(*) FROM `+c.table()+` WHERE status = 'SENT'`).Scan(&n)
		return fmt.Sprint(n, err), n == 19
	})
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.becomes("SENT 20")
	if n := len(r.broker.Log(settle.DefaultTopic)); n != 20 {
		t.Errorf("%d were sent", n)
	}
}

func TestAnAdoptedTableStaysItsOwners(t *testing.T) {
	c := newClassic(t, classicTable)
	c.insert(1, 3, "PENDING")
	// A warm connection of the service: what pgjdbc does for IDENTITY.
	warm := func() error {
		_, err := c.conn.Exec(t.Context(), "insert_all", settle.NewID())
		return err
	}
	if _, err := c.conn.Prepare(t.Context(), "insert_all", `INSERT INTO t_outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, status)
VALUES ($1::text, 'order', 'o-1', 'order.created', jsonb_build_object('eventId', $1::text, 'eventType', 'x', 'aggregateId', 'o-1'), 'PENDING') RETURNING *`); err != nil {
		t.Fatal(err)
	}
	catalog := func() string {
		var all string
		if err := c.conn.QueryRow(t.Context(), `SELECT string_agg(what, ', ' ORDER BY what) FROM (
 SELECT c.relkind::text || ' ' || c.relname AS what FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace
 UNION ALL SELECT 'function ' || proname FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
 UNION ALL SELECT 'trigger ' || tgname FROM pg_trigger WHERE tgrelid = 't_outbox_event'::regclass
 UNION ALL SELECT 'column ' || attname || format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 't_outbox_event'::regclass
 UNION ALL SELECT 'depends ' || classid::regclass::text || ' ' || objid::text FROM pg_depend WHERE refobjid = 't_outbox_event'::regclass) w`).Scan(&all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	before := catalog()
	if err := warm(); err != nil {
		t.Fatal(err)
	}
	c.adopt(migrate.AdoptConfig{})
	if err := warm(); err != nil {
		t.Errorf("after the adoption a warm connection says %v", err)
	}
	if after := catalog(); after != before {
		t.Errorf("the owner's schema was\n%s\nand is\n%s", before, after)
	}
	r := c.relay(newMemory(t), relay.Config{})
	r.sends(5)
	for _, change := range []string{
		`ALTER TABLE t_outbox_event ADD COLUMN tenant TEXT`, `ALTER TABLE t_outbox_event ALTER COLUMN event_id TYPE VARCHAR(128)`,
		`ALTER TABLE t_outbox_event ALTER COLUMN last_error TYPE VARCHAR(500)`, `CREATE INDEX ON t_outbox_event (tenant)`, `ALTER TABLE t_outbox_event DROP COLUMN tenant`,
	} {
		c.exec(change)
	}
	c.insert(100, 105, "PENDING")
	r.sends(11)
	c.becomes("SENT 11")
	if _, err := r.store.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAppendSaysWhereAnAdoptedOutboxIs(t *testing.T) {
	c := newClassic(t, classicTable)
	c.adopt(migrate.AdoptConfig{})
	s := postgres.OpenForTest(t, c.at, postgres.Config{})
	tx, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	err = s.Append(t.Context(), tx, &settle.Event{Type: "x", AggregateID: "k", Payload: []byte("{}")})
	if err == nil || !strings.Contains(err.Error(), c.table()) {
		t.Errorf("it says %v", err)
	}
}

func TestAnAdoptionThatIsKilledHalfWayGoesOn(t *testing.T) {
	c := newClassic(t, classicTable)
	c.insert(1, 10, "SENT")
	c.insert(11, 20, "PENDING")
	killed := 0
	for patience := time.Millisecond; ; patience = patience*4/3 + time.Millisecond {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		a, err := postgres.NewAdopt(c.at, migrate.AdoptConfig{Table: c.table()})
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.Run(ctx)
		cancel()
		if err == nil {
			break
		}
		killed++
		if s, err := postgres.Open(t.Context(), c.at, postgres.Config{Existing: true}); err == nil {
			// It was finished, and killed before it could say so.
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			break
		}
	}
	if killed < 3 {
		t.Errorf("killed %d times only", killed)
	}
	// Just before its last statement.
	conn, err := pgx.Connect(t.Context(), c.at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), `UPDATE settle_adoption SET adopted_at = NULL, listed_id = 15; DELETE FROM t_outbox_extra WHERE id > 15; DELETE FROM t_outbox_checkpoint`); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.Open(t.Context(), c.at, postgres.Config{}); err == nil || !strings.Contains(err.Error(), "settle migrate --adopt --yes goes on") {
		t.Errorf("a schema that is half adopted says %v", err)
	}
	c.insert(21, 22, "PENDING")
	c.adopt(migrate.AdoptConfig{})
	r := c.relay(newMemory(t), relay.Config{})
	r.sends(12)
	c.becomes("SENT 22")
	r.stop()
	if n := len(r.broker.Log(settle.DefaultTopic)); n != 12 {
		t.Errorf("%d were sent, want 12", n)
	}
}
