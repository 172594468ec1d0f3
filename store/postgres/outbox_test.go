package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

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

// appendWays are ways to store events in one transaction of their own.
func appendWays(s *postgres.Store) map[string]func(context.Context, ...*settle.Event) error {
	inPgx := func(ctx context.Context, do func(pgx.Tx) error) error { return pgx.BeginFunc(ctx, s.Pool(), do) }
	return map[string]func(context.Context, ...*settle.Event) error{
		"sql": func(ctx context.Context, events ...*settle.Event) error {
			tx, err := s.Begin(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback() }()
			if err := s.Append(ctx, tx, events...); err != nil {
				return err
			}
			return tx.Commit()
		},
		"pgx": func(ctx context.Context, events ...*settle.Event) error {
			return inPgx(ctx, func(tx pgx.Tx) error { return s.Pgx().Append(ctx, tx, events...) })
		},
		"batch": func(ctx context.Context, events ...*settle.Event) error {
			return inPgx(ctx, func(tx pgx.Tx) error {
				var b pgx.Batch
				if err := s.Pgx().Queue(&b, events...); err != nil {
					return err
				}
				return tx.SendBatch(ctx, &b).Close()
			})
		},
	}
}

func TestManyEventsOfOneCallAreAllThereInOrder(t *testing.T) {
	s := postgres.OpenForTest(t, postgres.DatabaseForTest(t), postgres.Config{})
	var want []string
	for name, store := range appendWays(s) {
		for _, n := range []int{0, 1, 7, 8, 9, 63, 64, 65, 137} {
			given, fresh := make([]*settle.Event, n), make([]*settle.Event, n)
			for i := range given {
				given[i], fresh[i] = plainEvent(fmt.Sprintf("%s%d-%d", name, n, i)), plainEvent("")
			}
			if err := errors.Join(store(t.Context(), given...), store(t.Context(), fresh...)); err != nil {
				t.Fatal(err)
			}
			for _, e := range append(given, fresh...) {
				want = append(want, e.ID)
			}
		}
	}
	if got := eventIDs(t, s); got != strings.Join(want, " ") {
		t.Errorf("events are %s", got)
	}
}

func TestAnEventThatIsThereIsNamedAndNothingOfItsCallIsStored(t *testing.T) {
	s := postgres.OpenForTest(t, postgres.DatabaseForTest(t), postgres.Config{})
	want := ""
	for name, store := range appendWays(s) {
		if err := store(t.Context(), plainEvent(name)); err != nil {
			t.Fatal(err)
		}
		want += " " + name
		fresh := plainEvent("")
		err := store(t.Context(), plainEvent(name+"-before"), plainEvent(name), fresh, plainEvent(name+"-behind"))
		if !errors.Is(err, settle.ErrDuplicateEvent) || !strings.Contains(err.Error(), "event "+name+" of") {
			t.Errorf("%s: says %v", name, err)
		}
		// It has an id now: stored again, it is the same event.
		if err := store(t.Context(), fresh); err != nil {
			t.Fatal(err)
		}
		want += " " + fresh.ID
		if err := store(t.Context(), fresh); !errors.Is(err, settle.ErrDuplicateEvent) {
			t.Errorf("%s: an event that is stored twice: %v", name, err)
		}
	}
	if got := " " + eventIDs(t, s); got != want {
		t.Errorf("events are%s, want%s", got, want)
	}
}

func TestABatchCarriesTheBusinessAndItsEvent(t *testing.T) {
	s := postgres.OpenForTest(t, postgres.DatabaseForTest(t), postgres.Config{})
	if _, err := s.DB().ExecContext(t.Context(), `CREATE TABLE orders (id text PRIMARY KEY)`); err != nil {
		t.Fatal(err)
	}
	order := func(id string, e *settle.Event) error {
		return pgx.BeginFunc(t.Context(), s.Pool(), func(tx pgx.Tx) error {
			var b pgx.Batch
			b.Queue(`INSERT INTO orders VALUES ($1)`, id)
			if err := s.Pgx().Queue(&b, e); err != nil {
				return err
			}
			return tx.SendBatch(t.Context(), &b).Close()
		})
	}
	if err := order("o-1", plainEvent("a")); err != nil {
		t.Fatal(err)
	}
	if err := order("o-1", plainEvent("b")); err == nil {
		t.Error("an order that was there is no error")
	}
	if err := order("o-2", plainEvent("a")); !errors.Is(err, settle.ErrDuplicateEvent) {
		t.Errorf("an event that was there: %v", err)
	}
	if err := order("o-3", &settle.Event{ID: "c"}); err == nil || s.Pgx().Queue(&pgx.Batch{}, &settle.Event{ID: "c"}) == nil {
		t.Error("an event without a type is no error")
	}
	var orders string
	if err := s.DB().QueryRowContext(t.Context(), `SELECT string_agg(id, ' ' ORDER BY id) FROM orders`).Scan(&orders); err != nil {
		t.Fatal(err)
	}
	if got := eventIDs(t, s); orders != "o-1" || got != "a" {
		t.Errorf("orders %s, events %s; want o-1 and a", orders, got)
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
