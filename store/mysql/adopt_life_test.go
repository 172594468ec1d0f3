package mysql_test

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
	"github.com/settlemq/settle/store/mysql"
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
		c.exec(`UPDATE t_outbox_event SET status = 'PENDING' WHERE event_id = ?`, fmt.Sprint("e-", id))
		log := r.sends(5 + i)
		c.becomes("SENT 6")
		if got := log[4+i].Event.ID; got != fmt.Sprint("e-", id) {
			t.Errorf("row %d was set back, %s was sent", id, got)
		}
	}
	var acts string
	if err := r.store.DB().QueryRowContext(t.Context(), `SELECT group_concat(actor, ' ', action, ' ', target ORDER BY seq SEPARATOR ', ') FROM t_audit`).Scan(&acts); err != nil || strings.Count(acts, "status column") != 2 {
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
		err := r.store.DB().QueryRowContext(context.Background(), `SELECT foreign_rows FROM settle_adoption`).Scan(&n)
		return fmt.Sprint(n, err), n == 2
	})
	c.exec(`UPDATE t_outbox_event SET status = 'PENDING' WHERE event_id = 'e-2'`)
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
	tx, err := c.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), at(6)); err != nil {
		t.Fatal(err)
	}
	c.exec(at(5000))
	c.adopt(migrate.AdoptConfig{})
	r := c.relay(newMemory(t), relay.Config{})
	r.sends(6)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	c.exec(at(4000)) // just below the highest
	c.exec(at(100))  // far below
	c.exec(at(6000)) // a jump
	c.exec(at(5500)) // behind the jump
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

// at stores a row whose id its program has chosen.
func at(id int) string {
	return fmt.Sprintf(`INSERT INTO t_outbox_event (id, event_id, aggregate_type, aggregate_id, event_type, payload, status)
VALUES (%[1]d, 'i-%[1]d', 'order', 'o-%[1]d', 'order.created', '{"eventId": "i-%[1]d", "eventType": "order.created", "aggregateId": "o-%[1]d"}', 'PENDING')`, id)
}

func TestKeysThatTheOldRelayRetriesBeginBlockedAndInOrder(t *testing.T) {
	c := newClassic(t, classicTable)
	c.insert(1, 30, "PENDING") // keys o-0 … o-9, three rows each
	c.exec(`UPDATE t_outbox_event SET status = 'RETRY', retry_count = 2, last_error = 'no route', next_retry_time = CURRENT_TIMESTAMP + INTERVAL 1 SECOND WHERE id IN (13, 15)`)
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
	c := newClassic(t, strings.NewReplacer("payload JSON", "payload TEXT", "last_error TEXT", "last_error VARCHAR(30)").Replace(classicTable))
	c.exec(`INSERT INTO t_outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, status) VALUES
 ('r-1', 'order', 'R', 'x', '{"eventId": "r-1", "eventType": "x", "aggregateId": "R"}', 'PENDING'), ('b-1', 'order', 'B', 'x', '{"eventId": "b-1", ', 'PENDING'),
 ('b-2', 'order', 'C', 'x', '{"eventId": "b-3"}', 'PENDING'), ('g-1', 'order', 'G', 'x', '{"eventId": "g-1", "eventType": "x", "aggregateId": "G"}', 'PENDING')`)
	c.adopt(migrate.AdoptConfig{Payload: migrate.PayloadEnvelope, Status: map[string][]string{migrate.StatusRetry: {"RETRY"}, migrate.StatusDead: {"DEAD"}}})
	b := &refusing{Broker: newMemory(t), key: "R"}
	store := mysql.OpenForTest(t, c.settle(), mysql.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- relay.New(store.Log(), b, relay.Config{SweepEvery: 50 * time.Millisecond, Retry: settle.Backoff{Base: time.Hour, Max: time.Hour}}).Run(ctx)
	}()
	c.becomes("DEAD 2, RETRY 1, SENT 1")
	var tries int
	var cause string
	var ahead bool
	if err := c.db.QueryRowContext(t.Context(), `SELECT retry_count, last_error, next_retry_time > UTC_TIMESTAMP + INTERVAL 10 MINUTE FROM t_outbox_event WHERE event_id = 'r-1'`).Scan(&tries, &cause, &ahead); err != nil || tries != 1 || cause != "record: refused: "+strings.Repeat("é", 13) || !ahead {
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
	c := newClassic(t, withoutIndex())
	c.insert(1, 20, "PENDING")
	c.adopt(migrate.AdoptConfig{})
	tx, err := c.db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), `UPDATE t_outbox_event SET last_error = 'mine' WHERE id = 7`); err != nil {
		t.Fatal(err)
	}
	r := c.relay(newMemory(t), relay.Config{})
	r.sends(20)
	eventually(t, "all others are marked", func() (string, bool) {
		var n int
		err := r.store.DB().QueryRowContext(context.Background(), `SELECT count(*) FROM `+c.table()+` WHERE status = 'SENT'`).Scan(&n)
		return fmt.Sprint(n, err), n == 19
	})
	if err := tx.Rollback(); err != nil {
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
	// A warm connection of the service, with a statement that it has prepared.
	warm, err := c.db.PrepareContext(t.Context(), `INSERT INTO t_outbox_event (event_id, aggregate_type, aggregate_id, event_type, payload, status)
VALUES (?, 'order', 'o-1', 'order.created', ?, 'PENDING')`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = warm.Close() }()
	store := func() error {
		id := settle.NewID()
		_, err := warm.ExecContext(t.Context(), id, fmt.Sprintf(`{"eventId": %q, "eventType": "x", "aggregateId": "o-1"}`, id))
		return err
	}
	catalog := func() string {
		var all, table string
		if err := c.db.QueryRowContext(t.Context(), `SELECT group_concat(what ORDER BY what) FROM (
 SELECT CONCAT(table_type, ' ', table_name) AS what FROM information_schema.tables WHERE table_schema = DATABASE()
 UNION ALL SELECT CONCAT('routine ', routine_name) FROM information_schema.routines WHERE routine_schema = DATABASE()
 UNION ALL SELECT CONCAT('trigger ', trigger_name) FROM information_schema.triggers WHERE trigger_schema = DATABASE()) w`).Scan(&all); err != nil {
			t.Fatal(err)
		}
		if err := c.db.QueryRowContext(t.Context(), `SELECT create_options FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 't_outbox_event'`).Scan(&table); err != nil {
			t.Fatal(err)
		}
		rows, err := c.db.QueryContext(t.Context(), `SELECT CONCAT_WS(' ', column_name, column_type, column_default, extra) FROM information_schema.columns WHERE table_schema = DATABASE() ORDER BY table_name, ordinal_position`)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = rows.Close() }()
		for rows.Next() {
			var column string
			if err := rows.Scan(&column); err != nil {
				t.Fatal(err)
			}
			all += "\n" + column
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return all + table
	}
	before := catalog()
	if err := store(); err != nil {
		t.Fatal(err)
	}
	c.adopt(migrate.AdoptConfig{})
	if err := store(); err != nil {
		t.Errorf("after the adoption a warm connection says %v", err)
	}
	if after := catalog(); after != before {
		t.Errorf("the owner's database was\n%s\nand is\n%s", before, after)
	}
	r := c.relay(newMemory(t), relay.Config{})
	r.sends(5)
	for _, change := range []string{
		`ALTER TABLE t_outbox_event ADD COLUMN tenant TEXT`, `ALTER TABLE t_outbox_event MODIFY event_id VARCHAR(128) NOT NULL`,
		`ALTER TABLE t_outbox_event MODIFY last_error VARCHAR(500)`, `CREATE INDEX i_tenant ON t_outbox_event (tenant(20))`, `ALTER TABLE t_outbox_event DROP COLUMN tenant`,
		`ALTER TABLE t_outbox_event ENGINE = InnoDB`, `OPTIMIZE TABLE t_outbox_event`,
	} {
		c.exec(change)
	}
	c.insert(100, 105, "PENDING")
	r.sends(11)
	c.becomes("SENT 11")
	if err := store(); err != nil {
		t.Errorf("behind its owner's changes a warm connection says %v", err)
	}
}

func TestOfAnAdoptedTableOnlyWhatIsMarkedAsSentIsDeletedAndOnlyWhenAsked(t *testing.T) {
	c := newClassic(t, classicTable)
	c.insert(1, 2, "DEAD")
	c.insert(3, 4, "SENT")
	c.insert(5, 6, "PENDING")
	c.adopt(migrate.AdoptConfig{})
	r := c.relay(newMemory(t), relay.Config{})
	r.sends(2)
	c.becomes("DEAD 2, SENT 4")
	r.stop()
	l := r.store.Log()
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
		if got := c.statuses(); got != step.left {
			t.Errorf("%s is left, want %s", got, step.left)
		}
	}
}

func TestAppendSaysWhereAnAdoptedOutboxIs(t *testing.T) {
	c := newClassic(t, classicTable)
	c.adopt(migrate.AdoptConfig{})
	s := mysql.OpenForTest(t, c.settle(), mysql.Config{})
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
		a, err := mysql.NewAdopt(c.at, migrate.AdoptConfig{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.Run(ctx)
		cancel()
		if err == nil {
			break
		}
		killed++
		if s, err := mysql.Open(t.Context(), c.settle(), mysql.Config{Existing: true}); err == nil {
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
	for _, query := range []string{`UPDATE %s.settle_adoption SET adopted_at = NULL, listed_id = 15`, `DELETE FROM %s.t_outbox_extra WHERE id > 15`, `DELETE FROM %s.t_outbox_checkpoint`} {
		c.exec(fmt.Sprintf(query, c.own))
	}
	if _, err := mysql.Open(t.Context(), c.settle(), mysql.Config{}); err == nil || !strings.Contains(err.Error(), "settle migrate --adopt --yes goes on") {
		t.Errorf("a database that is half adopted says %v", err)
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
