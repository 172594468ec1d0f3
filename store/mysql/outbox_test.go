package mysql_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/mysql"
)

func plainEvent(id string) *settle.Event {
	return &settle.Event{ID: id, Type: "order.created", AggregateID: "k", Payload: []byte(`{}`)}
}

func eventIDs(t *testing.T, s *mysql.Store) string {
	t.Helper()
	rows, err := s.Reader().QueryContext(t.Context(), "SELECT event_id FROM t_outbox_event ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return strings.Join(ids, "|")
}

func TestAnEventWhoseIDIsThereLeavesNothingOfItsCallAndTheTransactionGoesOn(t *testing.T) {
	s := mysql.OpenForTest(t, mysql.DatabaseForTest(t), mysql.Config{})
	tx, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	var many []*settle.Event
	for i := range 70 {
		many = append(many, plainEvent(fmt.Sprint("m", i)))
	}
	if err := s.Append(t.Context(), tx, plainEvent("a")); err != nil {
		t.Fatal(err)
	}
	err = s.Append(t.Context(), tx, append(many, plainEvent("a"))...)
	if !errors.Is(err, settle.ErrDuplicateEvent) || !strings.Contains(err.Error(), "event a ") {
		t.Fatalf("says %v", err)
	}
	if err := s.Append(t.Context(), tx, plainEvent("b")); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := eventIDs(t, s); got != "a|b" {
		t.Errorf("stored %s", got)
	}
}

func TestIDsThatDifferInCaseAccentOrTrailingSpaceAreDifferent(t *testing.T) {
	s := mysql.OpenForTest(t, mysql.DatabaseForTest(t), mysql.Config{})
	tx, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	want := []string{"Ab1", "aB1", "ab1 ", "ab1", "äb1"}
	for _, id := range want {
		if err := s.Append(t.Context(), tx, plainEvent(id)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := eventIDs(t, s); got != strings.Join(want, "|") {
		t.Errorf("stored %s", got)
	}
}
