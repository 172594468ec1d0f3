package postgres_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/store/postgres"
)

func plainEvent(id string) *settle.Event {
	return &settle.Event{ID: id, Type: "order.created", AggregateID: "k", Payload: []byte(`{}`)}
}

func eventIDs(t *testing.T, s *postgres.Store) string {
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
	return strings.Join(ids, " ")
}

func TestManyEventsOfOneCallAreAllThereInOrder(t *testing.T) {
	s := postgres.OpenForTest(t, postgres.DatabaseForTest(t), postgres.Config{})
	var want []string
	for _, n := range []int{0, 1, 7, 8, 9, 63, 64, 65, 137} {
		events := make([]*settle.Event, n)
		for i := range events {
			events[i] = plainEvent(fmt.Sprintf("e%d-%d", n, i))
			want = append(want, events[i].ID)
		}
		tx, err := s.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Append(t.Context(), tx, events...); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	if got := eventIDs(t, s); got != strings.Join(want, " ") {
		t.Errorf("events are %s", got)
	}
}

func TestATransactionOfPgxGoesOnAfterADuplicate(t *testing.T) {
	s := postgres.OpenForTest(t, postgres.DatabaseForTest(t), postgres.Config{})
	tx, err := s.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o := s.Pgx()
	if err := o.Append(t.Context(), tx, plainEvent("a")); err != nil {
		t.Fatal(err)
	}
	err = o.Append(t.Context(), tx, plainEvent("b"), plainEvent("a"), plainEvent("c"))
	if !errors.Is(err, settle.ErrDuplicateEvent) || !strings.Contains(err.Error(), "event a ") {
		t.Errorf("says %v", err)
	}
	if err := o.Append(t.Context(), tx, plainEvent("d")); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := eventIDs(t, s); got != "a d" {
		t.Errorf("events are %q", got)
	}
}
