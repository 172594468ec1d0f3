package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/govern"
	"github.com/settlemq/settle/relay"
	"github.com/settlemq/settle/store/sqlite"
)

func TestATrailGoesFromTheOutboxOverTheBrokerToTheEffect(t *testing.T) {
	ctx := t.Context()
	s, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "order.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	events := []*settle.Event{
		{ID: "1", Type: "order.created", AggregateID: "o-1", TraceID: "tr", BizKey: "biz", Payload: []byte("{}")},
		{ID: "2", Type: "order.paid", AggregateID: "o-1", TraceID: "tr", CausationID: "1", Payload: []byte("{}")},
		{ID: "3", Type: "order.reminded", AggregateID: "o-1", TraceID: "tr", Payload: []byte("{}")},
		{ID: "4", Type: "order.created", AggregateID: "o-2", Payload: []byte("{}")},
	}
	tx, err := s.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Append(ctx, tx, events...); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	publish(t, s)
	in := s.Inbox()
	it := settle.Item{Attempt: 1, Record: settle.Record{Event: events[0], Key: "o-1", Position: 5}}
	if _, err := in.Apply(ctx, settle.Work{Group: "inventory", Items: []settle.Item{it}}, func(context.Context, *sql.Tx, int) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := s.Governance().Skip(ctx, govern.Act{By: "ann", Reason: "sent by hand"}, "2"); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"1 appended", "1 applied", "1 published t/3/7", "2 appended", "2 discarded", "2 parked", "3 appended", "3 delayed",
	}
	for _, id := range []string{"o-1", "tr"} {
		steps, err := s.Governance().Trail(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, step := range steps {
			said := step.EventID + " " + step.Stage
			if at := step.Broker; at.Topic != "" {
				said += fmt.Sprintf(" %s/%d/%d", at.Topic, at.Partition, at.Offset)
			}
			got = append(got, said)
			if step.Service != "order" || step.Key != "o-1" || step.TraceID != "tr" || step.EventType == "" || step.At.IsZero() {
				t.Errorf("step %+v lacks service, key, trace, type or time", step)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("the trail of %s is\n%q, want\n%q", id, got, want)
		}
	}
}

// publish acknowledges the first event, parks the second and delays the third.
func publish(t *testing.T, s *sqlite.Store) {
	t.Helper()
	ctx := t.Context()
	log := s.Log()
	lease, err := log.Lead(ctx, "x", 0, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	page, err := log.Poll(ctx, relay.PollQuery{MaxRows: 10, MaxBytes: 1 << 20})
	if err != nil || len(page.Rows) != 4 {
		t.Fatalf("Poll: %+v, %v", page, err)
	}
	now := time.Now()
	err = log.Commit(ctx, lease, relay.Flush{
		Checkpoint: relay.Checkpoint{Number: 1, Readers: []relay.Reader{{Cursor: page.Rows[2].ID, CursorEvent: "3"}}},
		Sent:       []relay.Sent{{ID: page.Rows[0].ID, EventID: "1", Destination: "t", At: settle.Coordinates{Topic: "t", Partition: 3, Offset: 7}, SentAt: now}},
		Park: []relay.Park{{
			ID: page.Rows[1].ID, EventID: "2", EventType: "order.paid", Key: "o-1", Destination: settle.DefaultTopic, Attempts: 1, NextAt: now, Class: settle.ClassPublish, Cause: "too large",
		}},
		Delay: []relay.Delay{{ID: page.Rows[2].ID, EventID: "3", Destination: settle.DefaultTopic, Key: "o-1", Due: now.Add(time.Hour)}},
	})
	if err != nil {
		t.Fatal(err)
	}
}
