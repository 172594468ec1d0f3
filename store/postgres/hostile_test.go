package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/migrate"
	"github.com/settlemq/settle/store/postgres"
)

// Rows that any program may insert and no broker takes. Each has a key of its own.
var hostileRows = []string{
	`(event_id, event_type, aggregate_id, payload) VALUES ('cut', 'x', 'k1', '{"a": ')`,
	`(event_id, event_type, aggregate_id, payload) VALUES ('bytes', 'x', 'k2', '\xfffe')`,
	`(event_id, event_type, aggregate_id, payload) VALUES ('nameless', '', 'k3', '{}')`,
	`(event_id, event_type, aggregate_id, payload) VALUES ('', 'x', 'k4', '{}')`,
	`(event_id, event_type, aggregate_id, payload) VALUES ('large', 'x', 'k5', convert_to('"' || repeat('x', 3000000) || '"', 'UTF8'))`,
	`(event_id, event_type, aggregate_id, payload) VALUES (repeat('i', 5000), 'x', 'k6', '{}')`,
	`(event_id, event_type, aggregate_id, payload) VALUES ('keyless', 'x', '', '{}')`,
}

// A row whose topic is not there waits for it, and holds up nobody else.
func TestRowsThatNoBrokerTakesAreDeadLettersAndOthersFlow(t *testing.T) {
	t.Parallel()
	s := postgres.OpenForTest(t, postgres.DatabaseForTest(t), postgres.Config{})
	broker := memory.New(memory.Config{Topics: []string{settle.DefaultTopic}})
	defer func() { _ = broker.Close() }()
	insert := func(row string) {
		t.Helper()
		if _, err := s.DB().Exec("INSERT INTO t_outbox_event " + row); err != nil {
			t.Fatal(err)
		}
	}
	good := func(id, key string) {
		insert(fmt.Sprintf(`(event_id, event_type, aggregate_id, payload) VALUES ('%s', 'x', '%s', '{}')`, id, key))
	}
	good("first", "a")
	for _, row := range hostileRows {
		insert(row)
	}
	insert(`(event_id, event_type, aggregate_id, payload, topic) VALUES ('elsewhere', 'x', 'b', '{}', 'unknown')`)
	good("last", "c")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- relay.New(s.Log(), broker, relay.Config{}).Run(ctx) }()
	statuses := func() (of map[string]int) {
		of = map[string]int{}
		rows, err := s.Reader().Query(`SELECT status, count(*) FROM v_outbox_event GROUP BY status`)
		if err != nil {
			t.Error(err)
			return of
		}
		for rows.Next() {
			var status string
			var n int
			if err := rows.Scan(&status, &n); err != nil {
				t.Error(err)
			}
			of[status] = n
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Error(err)
		}
		return of
	}
	for of := statuses(); (of["SENT"] != 2 || of["PENDING"] != 1 || of["DEAD"] != len(hostileRows)) && !t.Failed(); of = statuses() {
		if ctx.Err() != nil {
			t.Errorf("the outbox is %v", of)
		}
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	letters, err := s.Governance().DeadLetters(t.Context(), govern.Filter{})
	if err != nil || len(letters) != len(hostileRows) {
		t.Fatalf("%d dead letters of %d, %v", len(letters), len(hostileRows), err)
	}
	for _, l := range letters {
		if l.Reason == "" || l.Class == "" {
			t.Errorf("dead letter of %q says %q, %q", l.EventID, l.Class, l.Reason)
		}
	}
}

// A migration that fails leaves what was done before it, names itself, and goes
// on when what was in its way is gone.
func TestAMigrationThatStopsHalfWayNamesItselfAndGoesOn(t *testing.T) {
	t.Parallel()
	admin := postgres.OpenForTest(t, postgres.DatabaseForTest(t), postgres.Config{})
	at := postgres.DatabaseForTest(t)
	schema := at[strings.LastIndex(at, "=")+1:]
	for _, query := range []string{`CREATE SCHEMA ` + schema, `CREATE TABLE ` + schema + `.t_dead_letter (note text)`} {
		if _, err := admin.DB().Exec(query); err != nil {
			t.Fatal(err)
		}
	}
	_, err := postgres.Open(t.Context(), at, postgres.Config{})
	if err == nil || !strings.Contains(err.Error(), "t_dead_letter") || !strings.Contains(err.Error(), "version:3") {
		t.Errorf("says %v, want the migration and what is in its way", err)
	}
	if _, err := admin.DB().Exec(`DROP TABLE ` + schema + `.t_dead_letter`); err != nil {
		t.Fatal(err)
	}
	s := postgres.OpenForTest(t, at, postgres.Config{})
	var twice int
	if err := s.Reader().QueryRow(`SELECT count(*) - count(DISTINCT version_id) FROM ` + migrate.Table).Scan(&twice); err != nil || twice != 0 {
		t.Errorf("%d migrations ran twice, %v", twice, err)
	}
	if _, err := s.Governance().DeadLetters(t.Context(), govern.Filter{}); err != nil {
		t.Error(err)
	}
}
