package storetest

import (
	"testing"
	"time"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

func upkeepCases[Tx any]() []OutboxCase[Tx] {
	return []OutboxCase[Tx]{
		{"only what is acknowledged, old and in no side table is deleted", retainOnlyDone[Tx]},
		{"a deletion is bounded and goes on with the next", retainBounded[Tx]},
		{"without a time no event is deleted and the position stays", retainNone[Tx]},
		{"what a slow destination has not read is not deleted", retainSlow[Tx]},
		{"what one of a topic's brokers has not read is not deleted, and not SENT", retainRouted[Tx]},
		{"a row that comes late is not deleted before it was sent, however old it is", retainLate[Tx]},
	}
}

func (o *outbox[Tx]) retain(before time.Time, limit int) int {
	o.Helper()
	n, err := o.Store.Retain(o.ctx, o.lease, before, limit)
	if err != nil {
		o.Fatalf("Retain: %v", err)
	}
	return n
}

func retainOnlyDone[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.appendKeys("abcdefg")
	topic := r[0].Event.Topic
	o.flush(r[5].ID, relay.Flush{
		Checkpoint: relay.Checkpoint{Readers: []relay.Reader{{Cursor: r[5].ID, Open: []int64{r[1].ID}}}}, // b in flight, g unread
		Sent:       []relay.Sent{sentRow(r[0], relay.FromLog), sentRow(r[4], relay.FromLog)},
		Park:       []relay.Park{parkRow(r[2], settle.ClassPublish, 1, o.Now())},
		Delay:      []relay.Delay{{ID: r[3].ID, EventID: "d", Destination: topic, Key: "key-d", Due: o.Now()}},
		Cold:       []int64{r[5].ID}, // f will be found late
	})
	o.sweep(1)
	if n := o.retain(o.Now().Add(-time.Hour), 100); n != 0 {
		t.Errorf("%d events were deleted that are not old enough", n)
	}
	o.Pass(time.Millisecond)
	if n := o.retain(o.Now(), 100); n != 2 {
		t.Errorf("%d events were deleted, want 2", n)
	}
	o.rows("b", "c", "d", "f", "g")
}

func retainBounded[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.appendKeys("abcdefgh")
	o.flush(r[7].ID, relay.Flush{
		Park: []relay.Park{
			parkRow(r[0], settle.ClassPublish, 1, o.Now()), parkRow(r[1], settle.ClassPublish, 1, o.Now()), parkRow(r[2], settle.ClassPublish, 1, o.Now()),
		},
		Sent: sentRows(r[3:]...),
	})
	o.Pass(time.Millisecond)
	total := 0
	for range 10 {
		n := o.retain(o.Now(), 2)
		if n > 2 {
			t.Fatalf("%d events were deleted at once, the limit is 2", n)
		}
		total += n
	}
	if total != 5 {
		t.Errorf("%d events were deleted in ten rounds, want 5: what must stay at the front stops the rest", total)
	}
	o.rows("a", "b", "c")
}

func retainNone[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.appendKeys("ab")
	for range 5 {
		o.flush(0, relay.Flush{})
	}
	o.flush(r[1].ID, relay.Flush{Sent: sentRows(r...)})
	o.flush(r[1].ID, relay.Flush{})
	o.Pass(time.Hour)
	for range 5 {
		if n := o.retain(time.Time{}, 100); n != 0 {
			t.Fatalf("%d events were deleted", n)
		}
	}
	o.wantStatus("a", "SENT")
	o.wantStatus("b", "SENT")
	if st := o.load(); st.Checkpoint.Number != o.number || len(st.Checkpoint.Readers) != 1 || st.Checkpoint.Readers[0].Cursor != r[1].ID {
		t.Errorf("the position is %+v, want number %d at %d", st.Checkpoint, o.number, r[1].ID)
	}
	if at, err := o.Where(o.ctx, "a"); err != nil || at.Offset != 100+r[0].ID {
		t.Errorf("where the broker has an event is forgotten before the event: %+v, %v", at, err)
	}
}

func retainSlow[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	slow := event("slow", "k")
	slow.Topic = "slow"
	o.append(event("a", "k"), slow, event("b", "k"))
	r := o.rows("a", "slow", "b")
	o.flush(0, relay.Flush{
		Checkpoint: relay.Checkpoint{Readers: []relay.Reader{{Cursor: r[2].ID}, {Destination: "slow", Cursor: r[0].ID}}},
		Sent:       sentRows(r[0], r[2]),
	})
	o.Pass(time.Millisecond)
	if n := o.retain(o.Now(), 100); n != 2 {
		t.Errorf("%d events were deleted, want 2", n)
	}
	o.rows("slow")
}

func retainRouted[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.appendKeys("abcd")
	topic, routes := r[0].Event.Topic, []relay.Route{{EventType: "x*", Broker: "archive"}}
	routed := func(behind relay.Reader, shown int64) relay.Checkpoint {
		behind.Destination, behind.Topics = relay.DestinationName("archive", topic), []string{topic}
		main := relay.Reader{Cursor: r[3].ID, Routing: []relay.Routing{{Routes: routes}}, Routed: []relay.Reader{behind}}
		return relay.Checkpoint{Readers: []relay.Reader{main, {Destination: topic, Cursor: shown, Open: behind.Open}}}
	}
	o.flush(0, relay.Flush{
		Checkpoint: routed(relay.Reader{Cursor: r[2].ID, Open: []int64{r[1].ID}}, r[2].ID),
		Sent:       sentRows(r[0], r[2], r[3]),
	})
	o.wantStatus("b", "PENDING")
	o.wantStatus("c", "SENT")
	o.Pass(time.Millisecond)
	if n := o.retain(o.Now(), 100); n != 2 {
		t.Errorf("%d events were deleted, want 2", n)
	}
	last := sentRow(r[1], relay.FromLog)
	last.Destination, last.At.Topic = relay.DestinationName("archive", topic), relay.DestinationName("archive", topic)
	o.flush(0, relay.Flush{Checkpoint: routed(relay.Reader{Cursor: r[3].ID}, r[3].ID), Sent: []relay.Sent{last}})
	o.wantStatus("b", "SENT")
	if n := o.retain(o.Now(), 100); n != 2 {
		t.Errorf("%d events were deleted when both brokers had all, want 2", n)
	}
}

func retainLate[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	id := o.late(event("late", "k"))
	if err := o.Insert(o.ctx, id+6, event("next", "l")); err != nil {
		t.Fatalf("insert a row behind the cursor's: %v", err)
	}
	old := o.Now().Add(24 * time.Hour)
	o.retain(old, 100)
	o.rows("late", "next")
	o.sweep(1)
	row := o.side(relay.SideQuery{Side: relay.SideExtra}).Rows[0]
	o.flush(row.ID+5, relay.Flush{Sent: []relay.Sent{sentRow(row, relay.FromExtra)}})
	if n := o.retain(old, 100); n != 1 {
		t.Errorf("%d events were deleted after the late one was sent, want 1", n)
	}
}
