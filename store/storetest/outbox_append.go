package storetest

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

func appendCases[Tx any]() []OutboxCase[Tx] {
	return []OutboxCase[Tx]{
		{"a rolled back transaction leaves no event", rollbackLeavesNothing[Tx]},
		{"an event is invisible until its transaction commits", invisibleUntilCommit[Tx]},
		{"events of one call and of later transactions come in the order of their commits", commitOrder[Tx]},
		{"an event id that is in the outbox is refused and leaves nothing of its call", duplicateRefused[Tx]},
		{"an event id twice in one call is refused", duplicateInCall[Tx]},
		{"an invalid event is refused by field and the transaction goes on", invalidRefused[Tx]},
		{"payloads come back byte for byte", payloadExact[Tx]},
		{"every field of an event comes back", fieldsComeBack[Tx]},
		{"the id of a deleted event is never given again", idsNeverReused[Tx]},
	}
}

func rollbackLeavesNothing[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := newOutbox(t, s)
	tx, err := o.Begin(o.ctx)
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	if err := o.Outbox.Append(o.ctx, tx, event("e1", "k"), event("e2", "k")); err != nil {
		t.Fatalf("Append: %v", err)
	}
	if err := o.Rollback(tx); err != nil {
		t.Fatalf("roll back: %v", err)
	}
	o.append(event("e3", "k"))
	o.rows("e3")
}

func invisibleUntilCommit[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := newOutbox(t, s)
	o.in(func(tx Tx) error {
		if err := o.Outbox.Append(o.ctx, tx, event("e1", "k")); err != nil {
			return err
		}
		o.rows()
		return nil
	})
	o.rows("e1")
}

func commitOrder[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := newOutbox(t, s)
	var want []string
	for _, call := range []string{"abc", "d", "efghijklmnopqrstuvwxyz"} {
		var events []*settle.Event
		for _, id := range strings.Split(call, "") {
			events = append(events, event(id, "k"))
			want = append(want, id)
		}
		o.in(func(tx Tx) error { return o.Outbox.Append(o.ctx, tx, events...) })
	}
	rows := o.rows(want...)
	if !slices.IsSortedFunc(rows, func(a, b relay.Row) int { return int(a.ID - b.ID) }) {
		t.Fatalf("ids do not rise")
	}
}

func duplicateRefused[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := newOutbox(t, s)
	o.append(event("e1", "k"))
	o.in(func(tx Tx) error {
		err := o.Outbox.Append(o.ctx, tx, event("e2", "k"), event("e1", "k"))
		if !errors.Is(err, settle.ErrDuplicateEvent) {
			t.Fatalf("Append of an id that is there: %v, want ErrDuplicateEvent", err)
		}
		if !strings.Contains(err.Error(), "e1") {
			t.Fatalf("the error does not name the event: %v", err)
		}
		return o.Outbox.Append(o.ctx, tx, event("e3", "k"))
	})
	o.rows("e1", "e3")
}

func duplicateInCall[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := newOutbox(t, s)
	tx, err := o.Begin(o.ctx)
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	if err := o.Outbox.Append(o.ctx, tx, event("e1", "k"), event("e1", "k")); !errors.Is(err, settle.ErrDuplicateEvent) {
		t.Errorf("Append: %v, want ErrDuplicateEvent", err)
	}
	if err := o.Rollback(tx); err != nil {
		t.Fatalf("roll back after ErrDuplicateEvent: %v", err)
	}
	o.rows()
}

func invalidRefused[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := newOutbox(t, s)
	bad := map[string]*settle.Event{}
	add := func(field string, change func(*settle.Event)) {
		bad[field] = event("", "k")
		change(bad[field])
	}
	add("type", func(e *settle.Event) { e.Type = "" })
	add("aggregateId", func(e *settle.Event) { e.AggregateID = "" })
	add("payload", func(e *settle.Event) { e.Payload = []byte(`{"cut":`) })
	add("bizKey", func(e *settle.Event) { e.BizKey = "two\nlines" })
	add("topic", func(e *settle.Event) { e.Topic = strings.Repeat("t", settle.MaxField+1) })
	add("headers", func(e *settle.Event) { e.Headers = map[string]string{"a b": "c"} })
	add("notBefore", func(e *settle.Event) { e.NotBefore, e.AggregateSeq = time.Now(), 1 })
	o.in(func(tx Tx) error {
		for _, field := range slices.Sorted(maps.Keys(bad)) {
			var invalid *settle.InvalidEventError
			if err := o.Outbox.Append(o.ctx, tx, event("good-"+field, "k"), bad[field]); !errors.As(err, &invalid) || invalid.Field != field {
				t.Errorf("Append of an event with a bad %s: %v, want an InvalidEventError that names it", field, err)
			}
		}
		return o.Outbox.Append(o.ctx, tx, event("good", "k"))
	})
	o.rows("good")
}

func payloadExact[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := newOutbox(t, s)
	payloads := []string{
		`{"n":12345678901234567890,"price":1.10,"e":1E400,"z":1,"a":2}`,
		"{\n\t\"spaces\" : [ 1 ,2 ]\n}",
		`{"twice":1,"twice":2,"esc":"\u00e9\/é"}`,
		`"text"`, `12345678901234567890`, `null`,
		strings.Repeat("\x00\xff\x80'\"\\", 1000),
		"",
	}
	for i, p := range payloads {
		e := event("", "k")
		e.Payload = []byte(p)
		if i >= len(payloads)-2 {
			e.ContentType = "application/octet-stream"
		}
		o.append(e)
	}
	rows := o.poll(relay.PollQuery{}).Rows
	if len(rows) != len(payloads) {
		t.Fatalf("%d rows, want %d", len(rows), len(payloads))
	}
	for i, r := range rows {
		if !bytes.Equal(r.Event.Payload, []byte(payloads[i])) || r.Defect != "" {
			t.Errorf("payload %q came back as %q (defect %q)", payloads[i], r.Event.Payload, r.Defect)
		}
	}
}

func fieldsComeBack[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := newOutbox(t, s)
	at := time.Date(2026, 2, 3, 4, 5, 6, 789012000, time.UTC)
	full := &settle.Event{
		ID: "e1", Type: "order.paid", AggregateType: "order", AggregateID: "o-1", AggregateSeq: 7, BizKey: "invoice-9",
		OccurredAt: at, AppendedAt: at.Add(time.Second), TraceID: "t-1", CausationID: "e0", Version: 3, ContentType: "application/vnd.x+json",
		Payload: []byte(`{}`), Headers: map[string]string{"traceparent": "00-ab", "X-é": "ü"}, Topic: "other", Supersedes: "e-1",
	}
	delete(full.Headers, "X-é")
	full.Headers["x-text"] = "ü"
	later := event("e2", "o-2")
	later.NotBefore = at.Add(time.Hour)
	o.append(full, later, event("e3", "o-3"))
	rows := o.rows("e1", "e2", "e3")
	got, want := *rows[0].Event, *full
	if !maps.Equal(got.Headers, want.Headers) || !bytes.Equal(got.Payload, want.Payload) {
		t.Errorf("headers %v and payload %s, want %v and %s", got.Headers, got.Payload, want.Headers, want.Payload)
	}
	got.Headers, want.Headers, got.Payload, want.Payload = nil, nil, nil, nil
	if !got.OccurredAt.Equal(want.OccurredAt) || !got.AppendedAt.Equal(want.AppendedAt) {
		t.Errorf("occurred %v, appended %v; want %v, %v", got.OccurredAt, got.AppendedAt, want.OccurredAt, want.AppendedAt)
	}
	got.OccurredAt, want.OccurredAt, got.AppendedAt, want.AppendedAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	if got, want := plain(got), plain(want); got != want {
		t.Errorf("event is %+v, want %+v", got, want)
	}
	if !rows[1].Event.NotBefore.Equal(later.NotBefore) {
		t.Errorf("notBefore is %v, want %v", rows[1].Event.NotBefore, later.NotBefore)
	}
	if e := rows[2].Event; e.BizKey != "o-3" || e.Topic != settle.DefaultTopic || e.Version != 1 || e.ContentType != settle.ContentTypeJSON || e.Headers != nil ||
		e.AppendedAt.IsZero() || e.OccurredAt.IsZero() || !e.NotBefore.IsZero() {
		t.Errorf("an event that says little comes back as %+v", e)
	}
}

// plain is what can be compared at once of an event.
func plain(e settle.Event) [11]any {
	return [11]any{e.ID, e.Type, e.AggregateType, e.AggregateID, e.AggregateSeq, e.BizKey, e.TraceID, e.CausationID, e.Version, e.ContentType, e.Topic + "/" + e.Supersedes}
}

func idsNeverReused[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	o.append(event("e1", "k"), event("e2", "k"))
	last := o.rows("e1", "e2")[1]
	if err := o.Vanish(o.ctx, "e2"); err != nil {
		t.Fatalf("delete a row: %v", err)
	}
	if got := o.load().MaxID; got != last.ID {
		t.Errorf("MaxID is %d after the last row went, want %d", got, last.ID)
	}
	o.append(event("e3", "k"))
	if r := o.rows("e1", "e3")[1]; r.ID <= last.ID {
		t.Errorf("the id %d of a deleted event was given again", r.ID)
	}
}
