package storetest

import (
	"testing"

	"github.com/settlemq/settle"
	"github.com/settlemq/settle/relay"
)

func statusCases[Tx any]() []OutboxCase[Tx] {
	return []OutboxCase[Tx]{
		{"an event is PENDING until its acknowledgement is committed", statusSent[Tx]},
		{"only an event that has failed is in RETRY", statusRetry[Tx]},
		{"a slow destination's events are PENDING until its own reader has passed them", statusSlow[Tx]},
		{"where the broker has an event is kept", whereKept[Tx]},
	}
}

func statusSent[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	r := o.appendKeys("abc")
	o.wantStatus("a", "PENDING")
	o.flush(r[1].ID, relay.Flush{
		Checkpoint: relay.Checkpoint{Readers: []relay.Reader{{Cursor: r[1].ID, Open: []int64{r[0].ID}}}},
		Sent:       []relay.Sent{sentRow(r[1], relay.FromLog)},
	})
	o.wantStatus("a", "PENDING") // below the cursor, in flight
	o.wantStatus("b", "SENT")
	o.wantStatus("c", "PENDING")
	o.flush(r[2].ID, relay.Flush{Sent: []relay.Sent{sentRow(r[0], relay.FromLog), sentRow(r[2], relay.FromLog)}})
	o.wantStatus("a", "SENT")
	o.wantStatus("c", "SENT")
}

func statusRetry[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	o.follow("a", "b")
	o.wantStatus("a", "RETRY")
	o.wantStatus("b", "PENDING")
}

func statusSlow[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	slow := event("slow", "k")
	slow.Topic = "slow"
	o.append(slow, event("a", "k"))
	r := o.rows("slow", "a")
	behind := relay.Checkpoint{Readers: []relay.Reader{{Cursor: r[1].ID}, {Destination: "slow", Cursor: 0}}}
	o.flush(0, relay.Flush{Checkpoint: behind, Sent: []relay.Sent{sentRow(r[1], relay.FromLog)}})
	o.wantStatus("slow", "PENDING")
	o.wantStatus("a", "SENT")
	level := relay.Checkpoint{Readers: []relay.Reader{{Cursor: r[1].ID}, {Destination: "slow", Cursor: r[1].ID}}}
	o.flush(0, relay.Flush{Checkpoint: level, Sent: []relay.Sent{sentRow(r[0], relay.FromLog)}})
	o.wantStatus("slow", "SENT")
}

func whereKept[Tx any](t testing.TB, s OutboxStore[Tx]) {
	o := leading(t, s)
	other := event("d", "k")
	other.Topic = `a "quoted" topic`
	rows := o.appendKeys("abc")
	o.append(other)
	rows = append(rows, o.poll(relay.PollQuery{After: rows[2].ID}).Rows...)
	o.flush(rows[3].ID, relay.Flush{Sent: []relay.Sent{sentRow(rows[1], relay.FromLog), sentRow(rows[3], relay.FromLog)}})
	o.flush(rows[3].ID, relay.Flush{Sent: []relay.Sent{sentRow(rows[0], relay.FromLog), sentRow(rows[2], relay.FromLog)}})
	for _, r := range rows {
		want := settle.Coordinates{Topic: r.Event.Topic, Partition: 3, Offset: 100 + r.ID}
		if at, err := o.Where(o.ctx, r.Event.ID); err != nil || at != want {
			t.Errorf("event %s is at %+v (%v), want %+v", r.Event.ID, at, err, want)
		}
	}
}
