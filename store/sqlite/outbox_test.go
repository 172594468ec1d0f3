package sqlite

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

func appendTest(t *testing.T, s *Store, events ...*settle.Event) {
	t.Helper()
	if err := inTx(t.Context(), s, func(tx *sql.Tx) error { return s.Append(t.Context(), tx, events...) }); err != nil {
		t.Fatal(err)
	}
}

func pollTest(t *testing.T, l *Log) []relay.Row {
	t.Helper()
	p, err := l.Poll(t.Context(), relay.PollQuery{MaxRows: 1000, MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return p.Rows
}

func TestAnyProgramMayInsertWithPlainSQL(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "a.db"), Config{})
	before := time.Now().Add(-time.Second)
	if _, err := s.DB().ExecContext(t.Context(), `INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload) VALUES ('e1', 'order.created', 'o-1', '{"n":1.10}')`); err != nil {
		t.Fatal(err)
	}
	r := pollTest(t, s.Log())[0]
	e := r.Event
	if string(e.Payload) != `{"n":1.10}` || e.BizKey != "o-1" || e.Topic != settle.DefaultTopic || e.Version != 1 || e.ContentType != settle.ContentTypeJSON || r.Defect != "" {
		t.Errorf("row is %+v, event %+v", r, e)
	}
	if !e.OccurredAt.Equal(e.AppendedAt) || e.AppendedAt.Before(before) || e.AppendedAt.After(time.Now().Add(time.Second)) {
		t.Errorf("occurred %v, appended %v", e.OccurredAt, e.AppendedAt)
	}
	if err := e.Validate(); err != nil {
		t.Error(err)
	}
}

func TestARowThatCanNotBecomeAnEventSaysWhyAndKeepsItsPlace(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "a.db"), Config{})
	for i, values := range []string{`'', '{}', NULL`, `'k', 12, NULL`, `'k', '{}', 'not JSON'`, `'k', '{}', '{"a":1}'`, `'k', '{}', NULL`} {
		if _, err := s.DB().ExecContext(t.Context(), `INSERT INTO t_outbox_event (event_id, event_type, aggregate_id, payload, headers) VALUES ('e`+string(rune('0'+i))+`', 'x', `+values+`)`); err != nil {
			t.Fatal(err)
		}
	}
	for i, r := range pollTest(t, s.Log()) {
		if good := i == 4; (r.Defect == "") != good {
			t.Errorf("row %d: defect %q", i, r.Defect)
		}
		if r.Event == nil || r.Event.ID == "" {
			t.Errorf("row %d has no event to park", i)
		}
	}
}

func TestAppendTakesATransactionOfAnotherPool(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	s := openTest(t, path, Config{})
	own, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = own.Close() }()
	tx, err := own.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	e := &settle.Event{ID: "e1", Type: "a", AggregateID: "k", Payload: []byte(`{}`)}
	if err := s.Append(t.Context(), tx, e); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(t.Context(), tx, e); !errors.Is(err, settle.ErrDuplicateEvent) {
		t.Errorf("twice: %v", err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if rows := pollTest(t, s.Log()); len(rows) != 1 {
		t.Errorf("%d rows", len(rows))
	}
}

func TestManyEventsOfOneCallAreAllThereInOrder(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "a.db"), Config{})
	for _, n := range []int{0, 1, 7, 8, 9, 63, 64, 65, 137} {
		before := len(pollTest(t, s.Log()))
		events := make([]*settle.Event, n)
		for i := range events {
			events[i] = &settle.Event{Type: "a", AggregateID: "k", Payload: []byte(`{}`)}
		}
		appendTest(t, s, events...)
		rows := pollTest(t, s.Log())[before:]
		if len(rows) != n {
			t.Fatalf("%d of %d events", len(rows), n)
		}
		for i, r := range rows {
			if r.Event.ID != events[i].ID {
				t.Fatalf("of %d events number %d is another", n, i)
			}
		}
	}
}

func TestAFullDiskIsAnErrorAndDamagesNothing(t *testing.T) {
	s := openTest(t, filepath.Join(t.TempDir(), "a.db"), Config{})
	appendTest(t, s, &settle.Event{ID: "before", Type: "a", AggregateID: "k", Payload: []byte(`{}`)})
	limit := func(pages string) {
		t.Helper()
		if _, err := s.DB().ExecContext(t.Context(), "PRAGMA max_page_count = "+pages); err != nil {
			t.Fatal(err)
		}
	}
	limit("1") // of what there is now: not one page more
	big := &settle.Event{ID: "big", Type: "a", AggregateID: "k", Payload: []byte(`"` + strings.Repeat("x", settle.MaxPayload-2) + `"`)}
	err := inTx(t.Context(), s, func(tx *sql.Tx) error { return s.Append(t.Context(), tx, big) })
	if err == nil || !strings.Contains(err.Error(), "full") {
		t.Fatalf("says %v", err)
	}
	limit("1000000")
	appendTest(t, s, &settle.Event{ID: "after", Type: "a", AggregateID: "k", Payload: []byte(`{}`)})
	var got []string
	for _, r := range pollTest(t, s.Log()) {
		got = append(got, r.Event.ID)
	}
	if strings.Join(got, " ") != "before after" {
		t.Errorf("events are %v", got)
	}
	var ok string
	if err := s.Reader().QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&ok); err != nil || ok != "ok" {
		t.Errorf("integrity: %s, %v", ok, err)
	}
}
