package sqlite_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/broker/memory"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/sqlite"
)

// hostileRows are inserts that the table allows and that no broker can take,
// one key each.
var hostileRows = map[string]string{
	"an empty event id":             `(event_id, event_type, aggregate_id, payload) VALUES ('', 'x', 'h1', '{}')`,
	"an empty key":                  `(event_id, event_type, aggregate_id, payload) VALUES ('h2', 'x', '', '{}')`,
	"an empty type":                 `(event_id, event_type, aggregate_id, payload) VALUES ('h3', '', 'h3', '{}')`,
	"a number as payload":           `(event_id, event_type, aggregate_id, payload) VALUES ('h4', 'x', 'h4', 12.5)`,
	"a payload that is cut":         `(event_id, event_type, aggregate_id, payload) VALUES ('h5', 'x', 'h5', '{"a":')`,
	"a payload of 50 MB":            `(event_id, event_type, aggregate_id, payload) VALUES ('h6', 'x', 'h6', CAST('"' || replace(hex(zeroblob(25000000)), '0', 'x') || '"' AS BLOB))`,
	"headers that are no object":    `(event_id, event_type, aggregate_id, payload, headers) VALUES ('h7', 'x', 'h7', '{}', '[1]')`,
	"a header over two lines":       `(event_id, event_type, aggregate_id, payload, headers) VALUES ('h8', 'x', 'h8', '{}', '{"a":"b\r\nc: d"}')`,
	"headers that are not UTF-8":    `(event_id, event_type, aggregate_id, payload, headers) VALUES ('h9', 'x', 'h9', '{}', '{"a":"' || CAST(x'ff' AS TEXT) || '"}')`,
	"a type that is not UTF-8":      `(event_id, event_type, aggregate_id, payload) VALUES ('h10', CAST(x'fffe' AS TEXT), 'h10', '{}')`,
	"a key that is not UTF-8":       `(event_id, event_type, aggregate_id, payload) VALUES ('h11', 'x', CAST(x'c328' AS TEXT), '{}')`,
	"a zero byte in the id":         `(event_id, event_type, aggregate_id, payload) VALUES ('h12' || char(0) || 'x', 'x', 'h12', '{}')`,
	"a count below zero":            `(event_id, event_type, aggregate_id, payload, aggregate_seq) VALUES ('h13', 'x', 'h13', '{}', -1)`,
	"a version below zero":          `(event_id, event_type, aggregate_id, payload, version) VALUES ('h14', 'x', 'h14', '{}', -9223372036854775808)`,
	"an event of the year 294247":   `(event_id, event_type, aggregate_id, payload, occurred_at) VALUES ('h15', 'x', 'h15', '{}', 9223372036854775807)`,
	"an event of before the era":    `(event_id, event_type, aggregate_id, payload, occurred_at) VALUES ('h16', 'x', 'h16', '{}', -9223372036854775808)`,
	"appended in the year 294247":   `(event_id, event_type, aggregate_id, payload, appended_at) VALUES ('h17', 'x', 'h17', '{}', 9223372036854775807)`,
	"not before the year 294247":    `(event_id, event_type, aggregate_id, payload, not_before) VALUES ('h18', 'x', 'h18', '{}', 9223372036854775807)`,
	"delayed and counted":           `(event_id, event_type, aggregate_id, payload, not_before, aggregate_seq) VALUES ('h19', 'x', 'h19', '{}', CAST(unixepoch('now', '+1 day') * 1000000 AS INTEGER), 1)`,
	"a topic with a line end":       `(event_id, event_type, aggregate_id, payload, topic) VALUES ('h20', 'x', 'h20', '{}', 'a' || char(10) || 'b')`,
	"a key of a thousand bytes":     `(event_id, event_type, aggregate_id, payload) VALUES ('h21', 'x', hex(zeroblob(500)), '{}')`,
	"an event id that is not UTF-8": `(event_id, event_type, aggregate_id, payload) VALUES (CAST(x'ff' AS TEXT), 'x', 'h22', '{}')`,
}

// An event of another program never passed Append's checks.
func TestRowsThatNoBrokerTakesAreDeadLettersAndOthersFlow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "order.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	broker := memory.New(memory.Config{})
	defer func() { _ = broker.Close() }()
	insert := func(row string) {
		t.Helper()
		if _, err := s.DB().ExecContext(t.Context(), "INSERT INTO t_outbox_event "+row); err != nil {
			t.Fatal(err)
		}
	}
	good := func(id string) {
		insert(`(event_id, event_type, aggregate_id, payload) VALUES ('` + id + `', 'x', '` + id + `', '{}')`)
	}
	good("first")
	for _, row := range hostileRows {
		insert(row)
	}
	// The last row that is read is the one that the cursor names.
	good("middle")
	insert(`(event_id, event_type, aggregate_id, payload) VALUES (CAST(x'fffe' AS TEXT), 'x', 'last', '{}')`)

	run := func(enough func() bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		r := relay.New(s.Log(), broker, relay.Config{})
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		for !enough() {
			select {
			case err := <-done:
				t.Fatalf("the relay ends: %v; its outbox: %v", err, statuses(t, s))
			case <-time.After(5 * time.Millisecond):
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	run(func() bool {
		st := statuses(t, s)
		return len(st["SENT"]) == 2 && len(st["DEAD"]) == len(hostileRows)+1
	})
	letters, err := s.Governance().DeadLetters(t.Context(), govern.Filter{})
	if err != nil || len(letters) != len(hostileRows)+1 {
		t.Fatalf("%d dead letters of %d, %v", len(letters), len(hostileRows)+1, err)
	}
	for _, l := range letters {
		d, err := s.Governance().DeadLetter(t.Context(), l.ID)
		if err != nil || d.Reason == "" || d.Class == "" {
			t.Errorf("dead letter %d of %q: class %q, reason %q, %v", l.ID, l.EventID, d.Class, d.Reason, err)
		}
	}
	// The next leader finds its place again, and goes on.
	good("after")
	run(func() bool { return len(statuses(t, s)["SENT"]) == 3 })
	for _, rec := range broker.Log(settle.DefaultTopic) {
		if rec.DecodeErr != nil {
			t.Errorf("a record went out that nobody can read: %v", rec.DecodeErr)
		}
	}
}

// statuses returns the event ids by status, as people see them.
func statuses(t *testing.T, s *sqlite.Store) map[string][]string {
	t.Helper()
	rows, err := s.Reader().QueryContext(t.Context(), `SELECT status, event_id FROM v_outbox_event`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	by := map[string][]string{}
	for rows.Next() {
		var status, id string
		if err := rows.Scan(&status, &id); err != nil {
			t.Fatal(err)
		}
		by[status] = append(by[status], id)
	}
	return by
}

func TestAnIDThatTheRelayWouldNeverReadIsRefused(t *testing.T) {
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "order.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for _, id := range []int{0, -1, -7} {
		_, err := s.DB().ExecContext(t.Context(), `INSERT INTO t_outbox_event (id, event_id, event_type, aggregate_id, payload) VALUES (?, ?, 'x', 'k', '{}')`, id, settle.NewID())
		if err == nil {
			t.Errorf("id %d is taken; nothing reads it", id)
		}
	}
	if _, err := s.DB().ExecContext(t.Context(), `INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload) VALUES ('e', 'x', 'k', '{}')`); err != nil {
		t.Error(errors.Join(errors.New("an ordinary row"), err))
	}
}
