package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/settlemq/settle/govern"
)

const plantLetter = `INSERT INTO t_dead_letter (service_side, consumer_group, event_id, event_type, aggregate_id, class, reason, attempts, state, opened_at, due_at, raw)
VALUES ('consumer', 'stock', ?, 'order.created', 'k', 'handler', 'no stock', 10, 'OPEN', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), '{}')`

const plantWaiting = `INSERT INTO t_consume_retry (consumer_group, aggregate_id, event_id, event_type, aggregate_type, aggregate_seq, biz_key, trace_id, state, blocking,
 attempts, next_at, class, cause, parked_at, topic, ` + "`partition`, `offset`" + `, position, record_key, raw, headers)
VALUES ('stock', 'k', ?, 'order.created', '', 0, '', '', ?, true, 0, NULL, 'handler', '', UTC_TIMESTAMP(6), 't', 0, 0, 0, '', '{}', '{}')`

func (s *Store) plant(t *testing.T, query string, args ...any) {
	t.Helper()
	if _, err := s.DB().ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func TestAnActThatADeadlockEndsIsDoneAnewAndAuditedOnce(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	s.plant(t, `CREATE TABLE t_heavy (id INT NOT NULL PRIMARY KEY)`)
	s.plant(t, plantLetter, "1")
	s.plant(t, plantLetter, "2")
	const touch = `UPDATE t_dead_letter SET reason = concat(reason, ?) WHERE event_id = ?`
	other, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback() }()
	// The server ends the one of two that has changed less.
	heavy := []string{}
	for i := range 500 {
		heavy = append(heavy, fmt.Sprintf("(%d)", i))
	}
	for _, query := range []string{`INSERT INTO t_heavy VALUES ` + strings.Join(heavy, ","), `UPDATE t_dead_letter SET reason = 'theirs' WHERE event_id = '2'`} {
		if _, err := other.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	holds, once := make(chan struct{}), sync.Once{}
	theirs := make(chan error, 1)
	go func() {
		<-holds
		_, err := other.ExecContext(context.Background(), touch, "", "1")
		if err == nil {
			err = other.Commit()
		}
		theirs <- err
	}()
	tries := 0
	err = s.Governance().act(t.Context(), govern.Act{By: "ann"}, func(d *deed) error {
		tries++
		for _, id := range []string{"1", "2"} {
			if _, err := d.do(t.Context(), touch, "+", id); err != nil {
				return err
			}
			once.Do(func() { close(holds) })
		}
		return d.audit(t.Context(), "dlq.replay", "stock:1")
	})
	if err := <-theirs; err != nil {
		t.Fatalf("the other transaction was ended: %v", err)
	}
	if err != nil || tries < 2 {
		t.Errorf("the act gives %v after %d tries; want it done by another than the first", err, tries)
	}
	var first, second string
	err = s.DB().QueryRowContext(t.Context(), `SELECT a.reason, b.reason FROM t_dead_letter a, t_dead_letter b WHERE a.event_id = '1' AND b.event_id = '2'`).Scan(&first, &second)
	if err != nil || first != "no stock+" || second != "theirs+" {
		t.Errorf("the rows are %q and %q, %v; want each changed once by the act", first, second, err)
	}
	if all, err := s.Governance().Audit(t.Context(), 0, 10); err != nil || len(all) != 1 {
		t.Errorf("audited are %+v, %v; want one entry", all, err)
	}
}

func TestWhoIsNotKeptWhollyDoesNothing(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{MaxConns: 1})
	// A server that cuts what doesn't fit must not cut the audit.
	s.plant(t, `SET SESSION sql_mode = ''`)
	if err := s.Governance().Pause(t.Context(), govern.Act{By: strings.Repeat("x", 192)}, "relay", ""); err == nil {
		t.Error("an act of somebody with 192 letters is done")
	}
	if err := s.Governance().Pause(t.Context(), govern.Act{By: "ann"}, "topic", strings.Repeat("x", 401)); err == nil {
		t.Error("a name of 401 letters is paused")
	}
	for table, want := range map[string]int{"settle_control": 0, "t_audit": 0} {
		var n int
		if err := s.DB().QueryRowContext(t.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil || n != want {
			t.Errorf("%s has %d rows, %v; want %d", table, n, err, want)
		}
	}
}

func TestABusinessGetsNoSessionThatAnActHasChanged(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{MaxConns: 1})
	const settings = `SELECT concat(@@sql_mode, ' ', @@innodb_lock_wait_timeout, ' ', @@wait_timeout)`
	var before, after string
	if err := s.DB().QueryRowContext(t.Context(), settings).Scan(&before); err != nil {
		t.Fatal(err)
	}
	if err := s.Governance().Pause(t.Context(), govern.Act{By: "ann"}, "relay", ""); err != nil {
		t.Fatal(err)
	}
	if err := s.DB().QueryRowContext(t.Context(), settings).Scan(&after); err != nil || after != before {
		t.Errorf("after an act a session has %s, %v; want %s", after, err, before)
	}
}

func TestADiscardWaitsForWhatComesToWaitBehindAndLetsItGo(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	s.plant(t, plantLetter, "1")
	s.plant(t, plantWaiting, "1", "DEAD")
	behind, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = behind.Rollback() }()
	if _, err := lockKeys(t.Context(), behind, "stock", []string{"k"}); err != nil {
		t.Fatal(err)
	}
	if _, err := behind.ExecContext(t.Context(), plantWaiting, "2", "PARKED"); err != nil {
		t.Fatal(err)
	}
	discarded := make(chan error, 1)
	go func() {
		got, err := s.Governance().Discard(t.Context(), govern.Act{By: "ann", Reason: "no use"}, 1)
		if err == nil && (len(got) != 1 || got[0].Result != "done") {
			err = fmt.Errorf("outcomes are %+v", got)
		}
		discarded <- err
	}()
	waitForLock(t, s.own)
	if err := behind.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-discarded; err != nil {
		t.Fatal(err)
	}
	var due bool
	if err := s.DB().QueryRowContext(t.Context(), `SELECT next_at IS NOT NULL FROM t_consume_retry WHERE event_id = '2'`).Scan(&due); err != nil || !due {
		t.Errorf("what waits behind is due: %v, %v; want true", due, err)
	}
}

// waitForLock returns when a transaction of the test's database waits for a lock.
// The server looks anew only when nobody has asked for a tenth of a second.
func waitForLock(t *testing.T, db *sql.DB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(150 * time.Millisecond)
	defer tick.Stop()
	for n := 0; n == 0; <-tick.C {
		err := db.QueryRowContext(ctx, `SELECT count(*) FROM information_schema.innodb_trx x JOIN information_schema.processlist p ON p.id = x.trx_mysql_thread_id
WHERE p.db = DATABASE() AND x.trx_state = 'LOCK WAIT'`).Scan(&n)
		if err != nil {
			t.Fatalf("nobody waits for a lock: %v", err)
		}
	}
}

func TestADeletionWaitsForAResendAndKeepsItsRow(t *testing.T) {
	s := OpenForTest(t, DatabaseForTest(t), Config{})
	l, lease := sentForTest(t, s)
	x, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = x.Rollback() }()
	for _, query := range []string{bumpControls, `INSERT INTO t_outbox_extra (id, message_id, reason, added_at) VALUES (1, 'a#1', 'resend', UTC_TIMESTAMP(6))`} {
		if _, err := x.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	deleted := make(chan int, 1)
	go func() {
		n, err := l.Retain(t.Context(), lease, time.Now().Add(time.Hour), 100)
		if err != nil {
			t.Error(err)
		}
		deleted <- n
	}()
	waitForLock(t, s.own)
	if err := x.Commit(); err != nil {
		t.Fatal(err)
	}
	if n := <-deleted; n != 1 {
		t.Errorf("%d rows were deleted, want the one that is not to be sent again", n)
	}
}
